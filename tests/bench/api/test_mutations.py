"""Whatever is sent, no answer is 5xx, and each is one that OpenAPI tells of.

`python -m tests.benchmarks api_mutations` sends 1,000.
"""

import pytest

pytest.importorskip("fastapi", reason="needs the extra api")
pytest.importorskip("schemathesis", reason="needs the group test")

from tests.bench.api.mutations import mutate
from tests.bench.api.served import Api


def test_no_mutated_request_ends_in_an_error_of_ours(api: Api) -> None:
    told = mutate(api, 60, 7)

    assert [] == told.wrong
    assert told.requests == 60
    assert len(told.operations) >= 13
    assert {200, 404, 422} <= told.statuses.keys()

"""Requests that schemathesis makes of the API's own OpenAPI document, right and wrong ones."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.bench.api.served import Api

CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
OURS = ("made-1", "gpt-1", "wait-1", "crash-1")
"""Half of all names are of runs that are there, so that more is reached than "no such run"."""


@dataclass
class Told:
    """What became of the requests.

    Attributes:
        requests: How many there were.
        statuses: Status -> how many.
        operations: Operation -> how many.
        wrong: Requests with 5xx, an answer that is not told of, or a refusal without a reason.
    """

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def mutate(api: Api, count: int, chosen: int) -> Told:
    """About `count` requests, as many of each operation, half of them wrong on purpose."""
    schema = schemathesis.openapi.from_url(f"{api.url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    told = Told()
    while told.requests < count:
        for number, (operation, mode) in enumerate(_pairs(operations)):
            left = count - told.requests
            share = min(max(1, round(count / (2 * len(operations)))), left)
            if left:
                _some(api, operation, mode, share, chosen + number, told)
        chosen += 1000
    return told


def _pairs(operations: list[Any]) -> Iterator[tuple[Any, GenerationMode]]:
    for operation in operations:
        yield operation, GenerationMode.POSITIVE
        yield operation, GenerationMode.NEGATIVE


def _some(
    api: Api, operation: Any, mode: GenerationMode, most: int, chosen: int, told: Told
) -> None:
    @seed(chosen)
    @settings(
        max_examples=most, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        if told.requests % 2 and "name" in case.path_parameters:
            case.path_parameters["name"] = OURS[told.requests // 2 % len(OURS)]
        _one(api, case, told)

    with suppress(Unsatisfiable):  # an operation without parameters has nothing to get wrong
        ask()


def _one(api: Api, case: Case, told: Told) -> None:
    told.requests += 1
    told.operations[case.operation.label] += 1
    what = f"{case.method} {case.formatted_path} {case.query} {str(case.body)[:200]}"
    try:
        answer = case.call(base_url=api.url, headers=api.headers, timeout=30)
    except (OSError, httpx.HTTPError) as error:
        told.wrong.append(f"{what}: no answer, {error}")
        return
    told.statuses[answer.status_code] += 1
    try:
        case.validate_response(answer, checks=CHECKS)
    except FailureGroup as failures:
        told.wrong.append(f"{what}: {answer.status_code}, {failures.exceptions[0]}")
    if answer.status_code >= 400 and not answer.json().get("reason"):
        told.wrong.append(f"{what}: {answer.status_code} without a reason")

"""1,000 requests to the API, right and wrong ones, made of its own OpenAPI by schemathesis.

`python -m tests.benchmarks.api_mutations COUNT SEED` sends others.
"""

import logging
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.api.mutations import mutate
from tests.bench.api.served import served

REQUESTS = 1000
GOALS = {"answers of 5xx": 0.0, "answers that OpenAPI does not tell of": 0.0, "requests left": 0.0}


def main(count: int = REQUESTS, chosen: int = 0) -> dict[str, float]:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder, served(Path(folder) / "runs") as api:
        told = mutate(api, count, chosen)
        alive = bool(api.client.runs())
    kinds = ", ".join(f"{status}: {number}" for status, number in sorted(told.statuses.items()))
    first = f"{told.requests} requests to {len(told.operations)} operations; {kinds}; alive {alive}"
    sys.stdout.write("\n".join([first, *told.wrong, ""]))
    return {
        "answers of 5xx": float(
            sum(each for status, each in told.statuses.items() if status > 499)
        ),
        "answers that OpenAPI does not tell of": float(len(told.wrong)),
        "requests left": float(count - told.requests) + (not alive),
    }


if __name__ == "__main__":
    found = main(*map(int, sys.argv[1:3]))
    sys.exit(any(found[name] > goal for name, goal in GOALS.items()))

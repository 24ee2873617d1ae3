"""Who is named for 2,000 simulated ends of runs (tests/ends.py), by what is missing of their pages.

Seeds of its own. Nobody is the right answer where the user ended a run, and often the only honest
one where the node that began it was not seen. Sure is what is told at 0.7 and more.
"""

from itertools import product

from tests.ends import KINDS, LACKS, NODE, USER, drawn, judged

SEEDS = range(20_000, 22_000)
SURE = 0.7
GOALS = {"wrong_of_sure": 0.01, "users_accused": 0.01}


def main() -> dict[str, float]:
    """Shares of each kind and lack, and how far the certainty is to be believed."""
    told: dict[tuple[str, str], list[tuple[str, float]]] = {
        each: [] for each in product(KINDS, LACKS)
    }
    for seed in SEEDS:
        end = drawn(seed)
        told[end.kind, end.lacks].append(judged(end))
    figures: dict[str, float] = {}
    for (kind, lacks), ends in told.items():
        if kind != USER:
            figures[f"{kind}_{lacks}_right"] = _share(ends, "right")
            figures[f"{kind}_{lacks}_wrong"] = _share(ends, "wrong")
    every = [one for ends in told.values() for one in ends]
    sure = [one for one in every if one[1] >= SURE]
    users = [one for lacks in LACKS for one in told[USER, lacks]]
    seen = [one for (kind, _), ends in told.items() if kind not in (USER, NODE) for one in ends]
    return figures | {
        "seen_right": _share(seen, "right"),
        "wrong": _share(every, "wrong"),
        "sure": len(sure),
        "said": sum(certainty for _, certainty in sure) / len(sure),
        "right_of_sure": _share(sure, "right"),
        "wrong_of_sure": _share(sure, "wrong"),
        "users_accused": 1.0 - _share(users, "nobody"),
    }


def _share(ends: list[tuple[str, float]], word: str) -> float:
    return sum(one == word for one, _ in ends) / len(ends)

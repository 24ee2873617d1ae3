"""200 exceptions in whatever of ours runs in a program: four kinds of training, and one unchanged.

Each is raised in one of two ranks over gloo, at a call of a function of ours that was seen to run;
losses and weights must be those of the program without Lockstep, to the last bit.
`--runs N`: so many instead of 200; `--seed X`.
"""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from lockstep.workloads.launch.joining.reachable import free_port
from tests.workloads.nursery import Nursery
from tests.workloads.sdk.exceptions.injection import ERRORS, Look, Point
from tests.workloads.sdk.exceptions.programs import KINDS, WORLD, points, run

RUNS = 200
GOALS = {"ended": 0.0, "changed": 0.0, "said_more_than_once": 0.0}
MOST_LINES = 2
"""That a part is not recorded, and then that the rest of it is not."""


def main() -> dict[str, float]:
    """Counts of exceptions, and of the functions of ours that they were raised in."""
    runs, seed = _option("--runs", RUNS), _option("--seed", 1)
    nursery = Nursery()
    figures = {"raised": 0.0, "ended": 0.0, "changed": 0.0, "said_more_than_once": 0.0}
    places: set[Point] = set()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, kind in enumerate(KINDS):
                share = runs * (number + 1) // len(KINDS) - runs * number // len(KINDS)
                dice = random.Random(f"{kind} {seed}")
                places |= _tried(nursery, Path(folder, str(number)), kind, share, dice, figures)
    finally:
        nursery.close()
    return figures | {"functions": float(len({(each.file, each.name) for each in places}))}


def _tried(
    nursery: Nursery, folder: Path, kind: str, runs: int, dice: random.Random,
    figures: dict[str, float],
) -> set[Point]:  # fmt: skip
    alone = _ranks(nursery, folder / "alone", kind, None, None)
    seen = _ranks(nursery, folder / "seen", kind, Look(), 0)
    places = [each for each in points(seen[0]) if each.guarded]
    dice.shuffle(places)
    tried: set[Point] = set()
    for number in range(runs):
        place = places[number % len(places)]
        # Half of them at the first call, where most is made.
        call = 1 if number % 2 else dice.randint(1, place.call)
        point, culprit = Point(place.file, place.name, call), number % WORLD
        error = ERRORS[number % len(ERRORS)]
        try:
            answers = _ranks(nursery, folder / str(number), kind, Look(point, error), culprit)
        except AssertionError as ended:
            figures["ended"] += 1
            sys.stderr.write(f"  {kind}: {error.__name__} in {point}: {ended}\n")
            continue
        changed = _told(answers) != _told(alone)
        lines = answers[culprit]["said"]
        figures["raised"] += answers[culprit]["raised"]
        figures["changed"] += changed
        figures["said_more_than_once"] += len(lines) > MOST_LINES
        if changed or len(lines) > MOST_LINES:
            sys.stderr.write(f"  {kind}: {error.__name__} in {point}: {lines}\n")
        tried.add(point)
    return tried


def _ranks(
    nursery: Nursery, folder: Path, kind: str, look: Look | None, culprit: int | None
) -> list[dict[str, Any]]:
    folder.mkdir(parents=True)
    port = free_port()

    def work(rank: int) -> dict[str, Any]:
        watched = culprit is not None
        return run(
            folder, rank, port, kind, watched=watched, look=look if rank == culprit else None
        )

    return nursery.ranks(WORLD, work)


def _told(answers: list[dict[str, Any]]) -> list[Any]:
    return [each["told"] for each in answers]


def _option(name: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default

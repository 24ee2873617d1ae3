"""Simulated runs -> the file of weights that `lockstep fit` writes."""

import json
import multiprocessing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lockstep.synth_trials import BUGS, EASY, HARD, PROCESSES, RUNS_PER_PROCESS, SynthTrial, made

if TYPE_CHECKING:
    from analyzer.cause_weights import Weights
    from analyzer.scoring.fit import Example

AFTER = 100_000
"""Seeds from which the calibration's are: scores use none of either."""
COPIES = 5
"""Of each finding, as other fleets would tell it."""


def fitted(runs: int, seed: int, told: Callable[[int, int], None]) -> tuple[str, str]:
    """(the file's text, what it is worth in words).

    Args:
        runs: Of the fit; a third as many calibrate.
        seed: Of the first run.
        told: Is called with (runs done, runs in all).
    """
    from analyzer.scoring.fit import calibrated, fit, guesses, log_loss

    some = [*_wanted(runs, seed), *_wanted(runs // 3, seed + AFTER)]
    context = multiprocessing.get_context("spawn")
    found: list[list[Example]] = []
    failed = 0
    with context.Pool(PROCESSES, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        for done, each in enumerate(pool.imap(_examples, some), 1):
            found.append(each or [])
            failed += each is None
            told(done, len(some))
    learned = list(_with_copies(found[:runs], seed))
    others = list(_with_copies(found[runs:], seed + AFTER))
    weights = calibrated(fit(learned), others)
    best = zip(others, guesses(weights, others), strict=True)
    right = sum(cause == one.cause for one, (cause, _) in best)
    words = (
        f"{len(learned)} examples; of {len(others)} others {right / len(others):.1%} right,"
        f" log loss {log_loss(weights, others):.3f}, temperature {weights.temperature:.2f}"
    )
    if failed:
        words += f"; {failed} of {len(some)} runs could not be judged and are left out"
    return _text(weights, runs, seed), words


def _wanted(runs: int, seed: int) -> list[SynthTrial]:
    """A third tidy, the others not; causes take turns in both."""
    tidy = runs // 3
    return [
        SynthTrial(seed + place, injected=True, variant="usual", delays=False,
                   level=EASY if place < tidy else HARD)
        for place in range(runs)
    ]  # fmt: skip


def _examples(trial: SynthTrial) -> "list[Example] | None":
    """None of a run that a mistake in a detector ended."""
    from analyzer.attribute import diagnose
    from analyzer.scoring.fit import examples

    run = made(trial)
    try:
        return list(examples(diagnose(run.run), run.truth))
    except BUGS:
        return None


def _with_copies(found: "list[list[Example]]", seed: int) -> "Iterator[Example]":
    import numpy as np

    from analyzer.scoring.fit import elsewhere

    dice = np.random.default_rng(seed)
    for one in (one for some in found for one in some):
        yield one
        yield from (elsewhere(one, dice) for _ in range(COPIES))


def _text(weights: "Weights", runs: int, seed: int) -> str:
    table = {cause: dict(sorted(row.items())) for cause, row in weights.of.items()}
    told = {"seed": seed, "runs": runs, "temperature": weights.temperature, "weights": table}
    return json.dumps(told, indent=1) + "\n"

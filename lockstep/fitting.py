"""Simulated runs, and real ones to calibrate on -> the file that `lockstep fit` writes."""

import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collector.contract.archive import TRUTH_FILE
from collector.contract.words import ExitCode
from lockstep import diagnosis, truth
from lockstep.output import CommandError, fail
from lockstep.synth_trials import BUGS, EASY, HARD, PROCESSES, RUNS_PER_PROCESS, SynthTrial, made

if TYPE_CHECKING:
    from analyzer.cause_weights import Weights
    from analyzer.scoring.fit import Example

AFTER = 100_000
"""Seeds from which the calibration's are: scores use none of either."""
COPIES = 5
"""Of each finding, as other fleets would tell it."""


def fitted(
    runs: int, seed: int, told: Callable[[int, int], None], settings: Sequence[Path] = ()
) -> tuple[str, str]:
    """(the file's text, what it is worth in words).

    Args:
        runs: Of the fit; a third as many calibrate.
        seed: Of the first run.
        told: Is called with (runs done, runs in all).
        settings: Folders of archives with truth.json, as `lockstep score real` and `lockstep score
            faults` leave: each calibrates as much as the simulated runs do, and fits nothing.

    Raises:
        CommandError: 65, a folder has no such archive; 64, two have one name.
    """
    from analyzer.scoring.fit import WELL, calibrated, fit, fit_well, guesses, log_loss

    names = [folder.resolve().name for folder in settings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        fail(ExitCode.USAGE, f"two folders are called {twice}: one setting would pay for the other")
    parts: list[Sequence[SynthTrial | Path]] = [
        _wanted(runs, seed), _wanted(runs // 3, seed + AFTER), *map(_archives, settings),
    ]  # fmt: skip
    some = [one for part in parts for one in part]
    context = multiprocessing.get_context("spawn")
    found: list[list[Example]] = []
    failed = 0
    with context.Pool(PROCESSES, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        for done, each in enumerate(pool.imap(_examples, some), 1):
            found.append(each or [])
            failed += each is None
            told(done, len(some))
    rest = iter(found)
    mine, simulated, *real = [[next(rest) for _ in part] for part in parts]
    every = list(_with_copies(mine, seed))
    learned = [one for one in every if one.cause != WELL]
    apart = _with_copies(simulated, seed + AFTER)
    unseen = {"simulated": [one for one in apart if one.cause != WELL]}
    for name, archives in zip(names, real, strict=True):
        unseen[name] = [one for archive in archives for one in archive if one.cause != WELL]
    weights = calibrated(fit(learned), *unseen.values())
    well = [one for one in every if one.cause == WELL]
    weights = fit_well(weights, [one for one in learned if one.kind == "slow"], well)
    examples = f"{len(learned)} examples, {len(well)} of places that are well"
    words = [f"{examples}; temperature {weights.temperature:.2f}"]
    for name, others in unseen.items():
        if not others:
            words.append(f"{name}: no finding whose cause is known")
            continue
        best = zip(others, guesses(weights, others), strict=True)
        right = sum(cause == one.cause for one, (cause, _) in best)
        words.append(
            f"{name}: of {len(others)} that it was not fitted on {right / len(others):.1%} right,"
            f" log loss {log_loss(weights, others):.3f}"
        )
    if failed:
        words.append(f"{failed} of {len(some)} runs could not be judged and are left out")
    calibrated_on = {name: len(others) for name, others in unseen.items()}
    return _text(weights, runs, seed, calibrated_on), "\n".join(words)


def _archives(folder: Path) -> list[Path]:
    """Those with truth.json anywhere below, in the order of their names.

    Raises:
        CommandError: 65, there are none.
    """
    found = sorted(path.parent for path in folder.rglob(TRUTH_FILE))
    if not found:
        fail(
            ExitCode.BAD_INPUT, f"{folder} has no archive with {TRUTH_FILE}: nothing to learn from"
        )
    return found


def _wanted(runs: int, seed: int) -> list[SynthTrial]:
    """A third tidy, the others not; causes take turns in both."""
    tidy = runs // 3
    return [
        SynthTrial(seed + place, injected=True, variant="usual", delays=False,
                   level=EASY if place < tidy else HARD)
        for place in range(runs)
    ]  # fmt: skip


def _examples(one: SynthTrial | Path) -> "list[Example] | None":
    """Of a simulated run, or of an archive; None of what a mistake in a detector ended."""
    from analyzer.pipeline import diagnose
    from analyzer.scoring.fit import background, examples

    if isinstance(one, Path):
        try:
            faults = truth.read(one)
            return list(examples(diagnosis.diagnose_archive(one), faults)) if faults else []
        except (*BUGS, CommandError):
            return None
    run = made(one)
    try:
        found = diagnose(run.run)
        return [*examples(found, run.truth), *background(found.grid, run.truth)]
    except BUGS:
        return None


def _with_copies(found: "list[list[Example]]", seed: int) -> "Iterator[Example]":
    import numpy as np

    from analyzer.scoring.fit import elsewhere

    dice = np.random.default_rng(seed)
    for one in (one for some in found for one in some):
        yield one
        yield from (elsewhere(one, dice) for _ in range(COPIES))


def _text(weights: "Weights", runs: int, seed: int, calibrated_on: dict[str, int]) -> str:
    table = {cause: dict(sorted(row.items())) for cause, row in weights.of.items()}
    told = {"seed": seed, "runs": runs, "calibrated_on": calibrated_on,
            "temperature": weights.temperature, "weights": table,
            "well": dict(sorted(weights.well.items()))}  # fmt: skip
    return json.dumps(told, indent=1) + "\n"

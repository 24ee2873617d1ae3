"""Simulated runs, and real ones to calibrate on -> the file that `lockstep fit` writes."""

import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import TRUTH_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose import diagnosis
from lockstep.evaluation.synth_trials import (
    BUGS,
    EASY,
    HARD,
    PROCESSES,
    RUNS_PER_PROCESS,
    SynthTrial,
    made,
)
from lockstep.runs import truth
from lockstep.terminal.output import CommandError, fail

if TYPE_CHECKING:
    from lockstep.analyzer.causes.cause_weights import Weights
    from lockstep.evaluation.scoring.examples import Example

AFTER = 100_000
"""Seeds from which the calibration's are: scores use none of either."""
COPIES = 5
"""Of each finding, as other fleets would tell it."""
LINES = ".jsonl"
"""Of a file of examples, one a line, as real runs are kept beside the table."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gives.

    Attributes:
        table: The file's text.
        words: What it is worth.
        examples: Of each folder of archives what is learned from it, as a file of lines has it.
    """

    table: str
    words: str
    examples: Mapping[str, str]


def kept() -> list[Path]:
    """The files of real runs' examples that lie beside the committed table, by their names."""
    return sorted(Path(str(files("lockstep.evaluation") / "calibration")).glob(f"*{LINES}"))


def with_kept(given: Sequence[Path]) -> list[Path]:
    """The settings to calibrate on: what is kept, but where one of its name is given anew."""
    new = {name_of(setting) for setting in given}
    return [*(one for one in kept() if name_of(one) not in new), *given]


def name_of(setting: Path) -> str:
    """The name of a setting: of its folder or file."""
    return setting.resolve().name.removesuffix(LINES)


def fitted(
    runs: int, seed: int, progress: Callable[[int, int], None], settings: Sequence[Path] = ()
) -> Fitted:
    """The table of simulated runs, as sure as it may be in all settings.

    Args:
        runs: Of the fit; a third as many calibrate.
        seed: Of the first run.
        progress: Is called with (runs done, runs in all).
        settings: Folders of archives with truth.json, as `lockstep score real` and `lockstep score
            faults` leave, or files of their examples: each calibrates as much as the simulated runs
            do, and fits nothing.

    Raises:
        CommandError: 65, a folder has no such archive, or a file a line that is no example; 64, two
            have one name.
    """
    from lockstep.evaluation.scoring.examples import WELL
    from lockstep.evaluation.scoring.fit import calibrated, fit, fit_well, guesses, log_loss

    names = [name_of(setting) for setting in settings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        fail(ExitCode.USAGE, f"two settings are called {twice}: one would pay for the other")
    known = {
        name: _lines(setting)
        for name, setting in zip(names, settings, strict=True)
        if setting.suffix == LINES
    }
    folders = [setting for setting in settings if setting.suffix != LINES]
    parts: list[Sequence[SynthTrial | Path]] = [
        _wanted(runs, seed), _wanted(runs // 3, seed + AFTER), *map(_archives, folders),
    ]  # fmt: skip
    some = [one for part in parts for one in part]
    context = multiprocessing.get_context("spawn")
    found: list[list[Example]] = []
    failed = 0
    with context.Pool(PROCESSES, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        for done, each in enumerate(pool.imap(_examples, some), 1):
            found.append(each or [])
            failed += each is None
            progress(done, len(some))
    rest = iter(found)
    mine, simulated, *real = [[next(rest) for _ in part] for part in parts]
    every = list(_with_copies(mine, seed))
    learned = [one for one in every if one.cause != WELL]
    apart = _with_copies(simulated, seed + AFTER)
    unseen = {"simulated": [one for one in apart if one.cause != WELL]}
    of_folders = [name for name in names if name not in known]
    judged = {
        name: [one for archive in archives for one in archive if one.cause != WELL]
        for name, archives in zip(of_folders, real, strict=True)
    }
    unseen |= {name: known.get(name) or judged.get(name) or [] for name in names}
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
    lines = {name: "".join(map(_line, each)) for name, each in judged.items()}
    return Fitted(_text(weights, runs, seed, calibrated_on), "\n".join(words), lines)


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


def _line(example: "Example") -> str:
    states = {state: round(share, 3) for state, share in sorted(example.states.items())}
    return json.dumps(asdict(example) | {"states": states}) + "\n"


def _lines(file: Path) -> "list[Example]":
    """The examples of a file.

    Raises:
        CommandError: 65, it cannot be read, has none, or a line is none.
    """
    from lockstep.evaluation.scoring.examples import Example, can_be

    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(ExitCode.BAD_INPUT, f"{file} cannot be read: {error}")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            one = Example(**bounded_json.loads(line))
            shares = one.states.values()
            right = can_be(one.cause, one.kind, gpu=one.gpu) and all(
                0.0 <= share <= 1.0 for share in shares
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            right = False
        if not right:
            fail(
                ExitCode.BAD_INPUT,
                f"{file}, line {number} is no example: it has to have a cause that its kind can"
                " have, kind, gpu and states, as --keep-examples writes them",
            )
        found.append(one)
    if not found:
        fail(ExitCode.BAD_INPUT, f"{file} has no example: nothing to calibrate on")
    return found


def _wanted(runs: int, seed: int) -> list[SynthTrial]:
    """A third tidy, the others not; causes take turns in both."""
    tidy = runs // 3
    return [
        SynthTrial(seed + place, injected=True, variant="usual", delays=False,
                   level=EASY if place < tidy else HARD)
        for place in range(runs)
    ]  # fmt: skip


def _examples(path: SynthTrial | Path) -> "list[Example] | None":
    """Of a simulated run, or of an archive; None of what a mistake in a detector ended."""
    from lockstep.analyzer.verdict.pipeline import diagnose
    from lockstep.evaluation.scoring.examples import background, examples

    if isinstance(path, Path):
        try:
            faults = truth.read(path)
            return list(examples(diagnosis.diagnose_archive(path), faults)) if faults else []
        except (*BUGS, CommandError):
            return None
    run = made(path)
    try:
        found = diagnose(run.run)
        return [*examples(found, run.truth), *background(found.grid, run.truth)]
    except BUGS:
        return None


def _with_copies(example: "list[list[Example]]", seed: int) -> "Iterator[Example]":
    import numpy as np

    from lockstep.evaluation.scoring.examples import elsewhere

    dice = np.random.default_rng(seed)
    for one in (one for some in example for one in some):
        yield one
        yield from (elsewhere(one, dice) for _ in range(COPIES))


def _text(weights: "Weights", runs: int, seed: int, calibrated_on: dict[str, int]) -> str:
    table = {cause: dict(sorted(row.items())) for cause, row in weights.of.items()}
    told = {"seed": seed, "runs": runs, "calibrated_on": calibrated_on,
            "temperature": weights.temperature, "weights": table,
            "well": dict(sorted(weights.well.items()))}  # fmt: skip
    return json.dumps(told, indent=1) + "\n"

"""The trials of `lockstep score synth`: made from a seed, diagnosed, and forgotten again.

Two processes share the work; each holds one run at a time, and only its line comes back.
"""

import multiprocessing
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Run, Verdict
    from lockstep.evaluation.scoring.score import Case
    from lockstep.evaluation.synth.fleet import SyntheticFleet
    from lockstep.evaluation.synth.whole import Labelled

PROCESSES = 2
RUNS_PER_PROCESS = 25
"""Then a fresh one takes over: what numpy and pandas keep of large runs goes back."""
DELAY_RANKS = 32
DELAY_EVERY = 3
"""Delays are of every third round of the faults, and of runs up to this size: each is found by
diagnosing up to 10 prefixes of the run."""
LOOKS = (15.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 450.0, 600.0)
"""Seconds after the onset, multiples of a scrape: a delay is told as the first look that knows,
so never too short. Beyond the last it counts as not found in time."""
BUGS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What a mistake in a detector or a cause raises; one must not end the score of all others."""
TRAINING = ("lockstep_train_", "lockstep_rank_")
"""Beginnings of the names of series that a job tells of its training."""
EASY, HARD = "easy", "hard"
"""Levels of difficulty; any other is the difficulties that all runs have, joined by commas."""
KEPT = ("rank", "node", "scope", "link", "cause", "confidence", "tier", "slowdown", "from_step")
"""Of a culprit; its evidence stays behind."""


@dataclass(frozen=True, slots=True)
class SynthTrial:
    """One run of a score.

    Attributes:
        seed: Of everything in it.
        injected: With faults, or healthy.
        variant: Of the physics (lockstep.evaluation.synth.variant).
        delays: Whether to replay it for its detection delay.
        uninstrumented: Whether its training series are taken away: hardware and allocation only.
        level: EASY, HARD, or difficulties joined by commas.
    """

    seed: int
    injected: bool
    variant: str
    delays: bool
    uninstrumented: bool = False
    level: str = EASY

    @property
    def name(self) -> str:
        """As in the results."""
        return f"{'injected' if self.injected else 'healthy'}-{self.seed}"


def trials(
    count: int, seed: int, variant: str, *, uninstrumented: bool = False, level: str = EASY
) -> list[SynthTrial]:
    """`count` injected and as many healthy runs in turn, with seeds from `seed` on."""
    from lockstep.evaluation.synth.draw import TURNS

    return [
        SynthTrial(
            seed=seed + i,
            injected=injected,
            variant=variant,
            delays=not uninstrumented and i // len(TURNS) % DELAY_EVERY == 0,
            uninstrumented=uninstrumented,
            level=level,
        )
        for i in range(count)
        for injected in (True, False)
    ]


def judged(wanted: list[SynthTrial]) -> Iterator[dict[str, Any]]:
    """The line of each trial, in order."""
    # Spawned, not forked: numpy's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES, maxtasksperchild=RUNS_PER_PROCESS) as pool:
        yield from pool.imap(judge, wanted)


def judge(trial: SynthTrial) -> dict[str, Any]:
    """One line of the results; of a trial that a bug ended, with `failed` in words instead."""
    try:
        return _line(trial)
    except BUGS as error:
        words = f"{trial.name}: {type(error).__name__}: {error}"
        return {"trial": trial.name, **asdict(trial), "failed": words}


def _line(trial: SynthTrial) -> dict[str, Any]:
    """Makes and diagnoses one run."""
    from lockstep.analyzer.shapes.verdict_json import verdict_json
    from lockstep.analyzer.verdict.pipeline import diagnose
    from lockstep.evaluation.published_rules import published_answers, trivial_answers
    from lockstep.evaluation.scoring.replay import detection_delay
    from lockstep.evaluation.synth.whole import labelled

    fleet = _fleet(trial)
    run = labelled(fleet)
    delay = None
    baselines: dict[str, Any] = {}
    if trial.uninstrumented:
        verdict = verdict_json(by_hardware(run.run))
    else:
        diagnosed = diagnose(run.run)
        verdict = verdict_json(diagnosed.verdict)
        grid = diagnosed.grid
        baselines = trivial_answers(grid, trial.seed) | published_answers(grid)
    if trial.delays and run.truth and fleet.world <= DELAY_RANKS:
        delay = detection_delay(run.run, run.truth[0], LOOKS)
    return {
        "trial": trial.name,
        **asdict(trial),
        "fleet": {
            "gpus": fleet.world, "dp": fleet.dp, "pp": fleet.pp, "tp": fleet.tp,
            "resolution": fleet.resolution.value, "steps": fleet.steps,
            "benign": [each.value for each in fleet.benign],
            "defects": [each.value for each in fleet.defects],
            "difficulties": [each.value for each in fleet.difficulties],
        },
        "truths": list(run.truth),
        "verdict": {
            "status": verdict["status"],
            "culprits": [{key: each[key] for key in KEPT} for each in verdict["culprits"]],
            "alternatives": verdict["alternatives"],
        },
        "delay_seconds": delay,
        "node_hours": run.node_hours,
        "baselines": baselines,
    }  # fmt: skip


def made(trial: SynthTrial) -> "Labelled":
    """The run of a trial, with its truth."""
    from lockstep.evaluation.synth.whole import labelled

    return labelled(_fleet(trial))


def _fleet(trial: SynthTrial) -> "SyntheticFleet":
    from lockstep.evaluation.synth.draw import drawn
    from lockstep.evaluation.synth.fleet import Difficulty
    from lockstep.evaluation.synth.hard_draw import hard

    if trial.level == EASY:
        return drawn(trial.seed, injected=trial.injected, variant=trial.variant)
    only = None if trial.level == HARD else [Difficulty(name) for name in trial.level.split(",")]
    return hard(trial.seed, injected=trial.injected, variant=trial.variant, only=only)


def by_hardware(run: "Run") -> "Verdict":
    """The verdict of a run of which nothing is left but hardware, and which GPUs are the job's.

    Ranks give the named GPUs their numbers afterwards, because the truth is told in these.
    """
    from lockstep.analyzer.hardware.anomalies.uninstrumented import uninstrumented

    at = {(info.node, info.gpu): info.rank for info in run.ranks if info.gpu is not None}
    of_ranks = run.samples["rank"].notna() | run.samples["metric"].str.startswith(TRAINING)
    verdict = uninstrumented(run.name, run.samples[~of_ranks], tuple(at))
    culprits = tuple(
        replace(each, rank=at.get((str(each.node), -1 if each.gpu is None else each.gpu)))
        for each in verdict.culprits
    )
    return replace(verdict, culprits=culprits)


def case(line: Mapping[str, Any]) -> "Case":
    """A line of the results as the analyzer scores it."""
    from lockstep.evaluation.scoring.score import Case

    first, *more = line["truths"] or [None]
    keys = ("verdict", "delay_seconds", "node_hours", "baselines")
    return Case(first, **{key: line[key] for key in keys}, more=tuple(more))


def slower_and_whole(line: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a run became slower as a whole, and whether all its telemetry is there."""
    from lockstep.evaluation.synth.fleet import Benign, Defect, Difficulty

    # A counter that begins anew and a scrape that is late are all there.
    lacks = {*Defect} - {Defect.RESET, Defect.LATE}
    lacks |= {Difficulty.SOURCES, Difficulty.SCRAPES}
    fleet = line["fleet"]
    lacking = lacks.intersection((*fleet["defects"], *fleet["difficulties"]))
    return Benign.UNIFORM in fleet["benign"], not lacking

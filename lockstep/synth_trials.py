"""The trials of `lockstep score synth`: made from a seed, diagnosed, and forgotten again.

Two processes share the work; each holds one run at a time, and only its line comes back.
"""

import multiprocessing
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analyzer.scoring.score import Case

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
KEPT = ("rank", "node", "scope", "link", "cause", "confidence", "tier", "slowdown", "from_step")
"""Of a culprit; its evidence stays behind."""


@dataclass(frozen=True, slots=True)
class SynthTrial:
    """One run of a score.

    Attributes:
        seed: Of everything in it.
        injected: With faults, or healthy.
        variant: Of the physics (analyzer.synth.variant).
        delays: Whether to replay it for its detection delay.
    """

    seed: int
    injected: bool
    variant: str
    delays: bool

    @property
    def name(self) -> str:
        """As in the results."""
        return f"{'injected' if self.injected else 'healthy'}-{self.seed}"


def trials(count: int, seed: int, variant: str) -> list[SynthTrial]:
    """`count` injected and as many healthy runs in turn, with seeds from `seed` on."""
    from analyzer.synth.draw import TURNS

    return [
        SynthTrial(seed + i, injected, variant, i // len(TURNS) % DELAY_EVERY == 0)
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
    from analyzer.attribute import diagnose
    from analyzer.rivals import rival_answers
    from analyzer.scoring.baselines import baseline_answers
    from analyzer.scoring.replay import detection_delay
    from analyzer.synth.draw import drawn
    from analyzer.synth.whole import labelled
    from analyzer.verdict_json import verdict_json

    fleet = drawn(trial.seed, injected=trial.injected, variant=trial.variant)
    made = labelled(fleet)
    diagnosed = diagnose(made.run)
    verdict = verdict_json(diagnosed.verdict)
    delay = None
    if trial.delays and made.truth and fleet.world <= DELAY_RANKS:
        delay = detection_delay(made.run, made.truth[0], LOOKS)
    return {
        "trial": trial.name,
        **asdict(trial),
        "fleet": {
            "gpus": fleet.world, "dp": fleet.dp, "pp": fleet.pp, "tp": fleet.tp,
            "resolution": fleet.resolution.value, "steps": fleet.steps,
            "benign": [each.value for each in fleet.benign],
            "defects": [each.value for each in fleet.defects],
        },
        "truths": list(made.truth),
        "verdict": {
            "status": verdict["status"],
            "culprits": [{key: each[key] for key in KEPT} for each in verdict["culprits"]],
            "alternatives": verdict["alternatives"],
        },
        "delay_seconds": delay,
        "node_hours": made.node_hours,
        "baselines": baseline_answers(diagnosed.grid, trial.seed) | rival_answers(diagnosed.grid),
    }  # fmt: skip


def case(line: Mapping[str, Any]) -> "Case":
    """A line of the results as the analyzer scores it."""
    from analyzer.scoring.score import Case

    first, *more = line["truths"] or [None]
    keys = ("verdict", "delay_seconds", "node_hours", "baselines")
    return Case(first, **{key: line[key] for key in keys}, more=tuple(more))

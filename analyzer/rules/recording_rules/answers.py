"""Answers of the recorded series as levels, counts and suspects; labels are what pages told."""

import dataclasses
import math
from collections.abc import Iterable, Mapping

from lockstep.analyzer.rules.recording_rules.signals import SIGNALS
from lockstep.analyzer.rules.recording_rules.suspects import Answered, Level, Place, Suspect
from lockstep.analyzer.shapes.labels import number

Labels = Mapping[str, str]
Answer = Iterable[tuple[Labels, float]]
Found = dict[tuple[str, int], Suspect]
"""Suspects by (run, rank)."""


def levels_of(answer: Answer) -> dict[str, dict[Place, Level]]:
    """Signal -> stratum -> Level, where all three of its parts are there."""
    parts: dict[tuple[str, Place], dict[str, float]] = {}
    for labels, value in answer:
        _, _, rest = labels.get("__name__", "").partition(":")
        name, _, suffix = rest.rpartition(":")
        place = labels.get("run", ""), labels.get("pp", ""), labels.get("tp", "")
        if math.isfinite(value):
            parts.setdefault((name, place), {})[suffix] = value
    found: dict[str, dict[Place, Level]] = {signal.name: {} for signal in SIGNALS}
    for (name, place), values in parts.items():
        if name in found and {"count", "med", "mad"} <= values.keys():
            found[name][place] = Level(int(values["count"]), values["med"], values["mad"])
    return found


def answered_of(told: Answer, expected: Answer) -> dict[str, Answered]:
    """Run -> how many told, of how many."""
    counts = {labels.get("run", ""): count for labels, count in told}
    worlds: dict[str, int] = {}
    for labels, placed in expected:
        run = labels.get("run", "")
        # A world size that is no number is a page's mistake: then as many as have a place.
        world = number(labels, "world_size") or int(placed)
        worlds[run] = max(worlds.get(run, 0), world)
    return {run: Answered(counts.get(run, 0.0), world) for run, world in worlds.items()}


def suspect(labels: Labels, z: Mapping[str, float], *, stopped: bool = False) -> Suspect | None:
    """The rank that the labels are of, or None where they are of none."""
    rank = number(labels, "rank")
    if rank is None:
        return None
    return Suspect(
        run=labels.get("run", ""), rank=rank, dp=number(labels, "dp"), pp=labels.get("pp", ""),
        tp=labels.get("tp", ""), node=labels.get("node", ""), gpu=number(labels, "gpu"),
        uuid=labels.get("uuid") or None, z=z, stopped=stopped,
    )  # fmt: skip


def add(found: Found, one: Suspect | None) -> None:
    """Joins what is known of a rank; where it has two places, that of the worse word stays."""
    if one is None:
        return
    key = one.run, one.rank
    known = found.get(key)
    if known is None:
        found[key] = one
        return
    worse, other = (one, known) if one.severity > known.severity else (known, one)
    z = dict(other.z)
    for name, value in worse.z.items():
        z[name] = max(value, z.get(name, 0.0), key=abs)
    slowdowns = [each.slowdown for each in (one, known) if each.slowdown is not None]
    found[key] = dataclasses.replace(
        worse, z=z, slowdown=max(slowdowns, default=None), stopped=one.stopped or known.stopped
    )


def tell_slowdowns(found: Found, run: str, answer: Answer) -> None:
    """Gives suspects of a run their slowdown, as `queries.slowdowns` answers it."""
    for labels, ratio in answer:
        rank = number(labels, "rank")
        one = None if rank is None else found.get((run, rank))
        if one is not None and math.isfinite(ratio):
            known = one.slowdown or 0.0
            found[one.run, one.rank] = dataclasses.replace(one, slowdown=max(ratio, known))


def worst_first(found: Found) -> tuple[Suspect, ...]:
    """By severity; equals in rank order."""
    ordered = sorted(found.values(), key=lambda one: (one.run, one.rank))
    return tuple(sorted(ordered, key=lambda one: one.severity, reverse=True))

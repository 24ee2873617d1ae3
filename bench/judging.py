"""Results against earlier ones of the same workload: a regression, one slow GPU, both, or neither.

Times are compared as logarithms. What a rank's own time gained beyond what all ranks gained is that
rank's; the step's time without it is the run's (docs/ml/bench.md has the derivation). Pure.
"""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lockstep.bench.results import VERSIONS
from lockstep.bench.spec import BenchError
from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.words import ExitCode

Row = Mapping[str, Any]
WORKLOAD = ("workload", "settings", "nodes", "ranks", "dp", "tp", "pp", "emulated_devices")
"""What must be the same for two results to be of one workload; the seed is in its settings."""
PRIOR_SPREAD, PRIOR_RUNS = 0.005, 4
"""The spread of a healthy run's speed, before any was seen, and how many runs that belief weighs.

Above what repeated runs with emulated devices show on an idle machine; four runs weigh as much as a
short baseline. `tests.benchmarks.bench_baselines` measures what follows from it.
"""
RUN_PROBABILITY = 5e-4
"""Of calling a healthy run slow, one side; over all ranks together likewise."""
BLIND = 1.25
"""Where a smaller slowdown than this would not have been noticed, nothing is called as before."""
LEAST = 0.01
"""A change that is smaller than this is nobody's concern, however certain."""
NOTICED_PROBABILITY = 0.95


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one workload.

    Attributes:
        status: as-before, faster, regression, culprit, both, slower (not known where), or unknown.
        slowdown: Step time over the baseline's, what culprits cost left out; NaN = not known.
        interval: 95 % interval of it.
        whole: Step time over the baseline's, all in.
        smallest: The smallest slowdown of all ranks that would have been noticed in 95 of 100 runs.
        culprits: Ranks, with node and their own slowdown beyond that of all.
        changed: What is another version than it was, in words.
        facts: Sentences beneath the sentence.
    """

    workload: str
    status: str
    slowdown: float
    interval: tuple[float, float]
    whole: float
    smallest: float
    culprits: tuple[Mapping[str, Any], ...]
    changed: tuple[str, ...]
    sentence: str
    facts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON types; what is not known is null."""
        told = asdict(self)
        for name in ("slowdown", "whole", "smallest"):
            told[name] = None if math.isnan(told[name]) else told[name]
        told["interval"] = None if math.isnan(self.interval[0]) else list(self.interval)
        return told


def compared(before: Sequence[Row], after: Sequence[Row]) -> list[Judgement]:
    """Every workload of both, in the order of `after`; then those that only failed there.

    Raises:
        BenchError: They have none in common, or are of other hardware.
    """
    old, new = grouped(before), grouped(after)
    common = [key for key in new if key in old]
    silent = list(_without_speed(old, new, after))
    if not common and not silent:
        raise BenchError(
            "A and B have no workload in common: workload, settings, nodes, ranks and layout must"
            f" be the same; A has {_names(old)}, B has {_names(new)}"
        )
    judged = [_with_failures(judge(old[key], new[key]), new[key], after) for key in common]
    return [*judged, *silent]


def grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Workload -> its results that finished with a speed."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("status", "finished") == "finished" and row.get("step_seconds"):
            found.setdefault(key_of(row), []).append(row)
    return found


def key_of(row: Row) -> str:
    """The workload of a result, the same for all that may be compared."""
    return json.dumps([row.get(name) for name in WORKLOAD])


def judge(before: Sequence[Row], after: Sequence[Row]) -> Judgement:
    """One workload, all repeats of it.

    Raises:
        BenchError: The hardware is another.
    """
    _refuse_other_hardware(before, after)
    name = words_of(after[0])
    changed = tuple(changes(before, after))
    old_own, new_own = _owns(before), _owns(after)
    known = old_own is not None and new_own is not None
    culprits = _culprits(old_own, new_own, after) if known else ()
    old = [math.log(row["step_seconds"]) for row in before]
    new = [math.log(row["step_seconds"]) for row in after]
    whole = math.exp(statistics.fmean(new) - statistics.fmean(old))
    shared = new
    if culprits and old_own is not None and new_own is not None:
        slow = {each["rank"] for each in culprits}
        shared = [
            max(
                math.log(max(row["step_seconds"] - _excess(old_own, own, slow), 1e-12)),
                _by_the_others(old, old_own, own, slow),
            )
            for row, own in zip(after, new_own, strict=True)
        ]
    change = statistics.fmean(shared) - statistics.fmean(old)
    spread, freedom = _spread(old, shared, before, after)
    error = spread * math.sqrt(1 / len(old) + 1 / len(new))
    threshold = max(LEAST, _t(1 - RUN_PROBABILITY, freedom) * error)
    margin = _t(0.975, freedom) * error
    smallest = math.exp(threshold + _t(NOTICED_PROBABILITY, freedom) * error)
    slowdown = math.exp(change)
    regressed = change > threshold
    status = (
        "both" if regressed and culprits else "culprit" if culprits
        else "regression" if regressed and known else "slower" if regressed
        else "faster" if change < -threshold else "as-before" if smallest <= BLIND else "unknown"
    )  # fmt: skip
    interval = (math.exp(change - margin), math.exp(change + margin))
    sentence, facts = _sentence_and_facts(
        name, status, slowdown, interval, whole, smallest, culprits, changed, before, after
    )
    return Judgement(name, status, slowdown, interval, whole, smallest, culprits, changed,
                     sentence, facts)  # fmt: skip


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """What is another version than it was, in the order in which one suspects it."""
    told = []
    for name in (*VERSIONS, "launcher"):
        old = sorted({str(row[name]) for row in before if row.get(name) is not None})
        new = sorted({str(row[name]) for row in after if row.get(name) is not None})
        if old and new and old != new:
            told.append(f"{name.replace('_', ' ')} {', '.join(old)} -> {', '.join(new)}")
    return told


def exit_code(judgements: Sequence[Judgement]) -> int:
    """By the worst: 2 a regression or culprit was named, 1 slower, 3 unknown, 0 as before."""
    found = {each.status for each in judgements}
    if found & {"regression", "culprit", "both"}:
        return ExitCode.CULPRIT
    if "slower" in found:
        return ExitCode.WARNING
    return ExitCode.UNKNOWN if not judgements or "unknown" in found else ExitCode.OK


def _with_failures(judgement: Judgement, good: Sequence[Row], after: Sequence[Row]) -> Judgement:
    """Says that some runs of the workload did not finish; those that did were judged."""
    failed = [
        row for row in after
        if _asked(row) == _asked(good[0]) and row.get("status", "finished") != "finished"
    ]  # fmt: skip
    if not failed:
        return judgement
    reasons = sorted({str(row.get("reason") or "the reason is unknown") for row in failed})
    more = f" and {len(reasons) - 1} more reasons" if len(reasons) > 1 else ""
    fact = (
        f"{len(failed)} of its {len(failed) + len(good)} runs did not finish and are not in it:"
        f" {reasons[0]}{more}"
    )
    return replace(judgement, facts=(*judgement.facts, fact))


def _without_speed(
    old: Mapping[str, Sequence[Row]], new: Mapping[str, Sequence[Row]], after: Sequence[Row]
) -> Iterable[Judgement]:
    """Workloads of the baseline that were run, and none of whose runs tells how fast it was."""
    known, measured = ({_asked(rows[0]) for rows in each.values()} for each in (old, new))
    silent: dict[str, list[Row]] = {}
    for row in after:
        if _asked(row) in known - measured:
            silent.setdefault(_asked(row), []).append(row)
    for rows in silent.values():
        finished = any(row.get("status", "finished") == "finished" for row in rows)
        how = "reports its speed" if finished else "finished"
        sentence = f"{words_of(rows[0])}: unknown, none of its runs ({len(rows)}) {how}."
        reasons = sorted({str(row["reason"]) for row in rows if row.get("reason")})
        yield Judgement(words_of(rows[0]), "unknown", math.nan, (math.nan, math.nan), math.nan,
                        math.nan, (), (), sentence, tuple(reasons[:3]))  # fmt: skip


def _asked(row: Row) -> str:
    """The workload as far as a run that failed tells it: not on which devices."""
    return json.dumps([row.get(name) for name in WORKLOAD if name != "emulated_devices"])


def words_of(row: Row) -> str:
    """`gpt on 2 nodes (4 ranks, dp2xtp2xpp1)`."""
    layout = "x".join(f"{name}{row.get(name)}" for name in ("dp", "tp", "pp"))
    nodes = row.get("nodes")
    where = f"{nodes} node{'' if nodes == 1 else 's'} ({row.get('ranks')} ranks, {layout})"
    settings = str(row.get("settings") or "{}")
    about = "" if settings == "{}" else f" {settings}"
    return f"{row.get('workload')} on {where}{about}"


def _refuse_other_hardware(before: Sequence[Row], after: Sequence[Row]) -> None:
    old = {row["hardware"] for row in before if row.get("hardware")}
    new = {row["hardware"] for row in after if row.get("hardware")}
    if old and new and old != new:
        raise BenchError(
            f"the baseline of {words_of(after[0])} is of other hardware:"
            f" {' and '.join(sorted(old))}, not {' and '.join(sorted(new))}; lock one of this"
        )


def _owns(rows: Sequence[Row]) -> list[list[float]] | None:
    """Own seconds of every rank, result by result; None = not all are known, or of as many."""
    owns = [row.get("rank_own_seconds") for row in rows]
    if any(not own or not all(each > 0 for each in own) for own in owns):
        return None
    found = [list(own) for own in owns if own]
    return found if len({len(own) for own in found}) == 1 else None


def _culprits(
    old: list[list[float]] | None, new: list[list[float]] | None, after: Sequence[Row]
) -> tuple[Mapping[str, Any], ...]:
    """Ranks whose own time grew beyond that of the others, slowest first.

    What all gained is the low median over ranks: with one of two, or a node's half of the ranks
    slow, the others still say it. The spread of a rank about that, before and after, is pooled with
    the prior; the probability is divided by the ranks, since each could be called.
    """
    if old is None or new is None or len(old[0]) != len(new[0]) or len(new[0]) < 2:
        return ()
    ranks = range(len(new[0]))
    expected = [statistics.fmean(math.log(own[rank]) for own in old) for rank in ranks]
    gained = [[math.log(own[rank]) - expected[rank] for rank in ranks] for own in new]
    beyond = [[each - statistics.median_low(one) for each in one] for one in gained]
    residuals = [
        math.log(own[rank]) - expected[rank]
        - statistics.fmean(math.log(own[each]) - expected[each] for each in ranks)
        for own in old for rank in ranks
    ]  # fmt: skip
    freedom = (len(old) - 1) * (len(ranks) - 1)
    weight = PRIOR_RUNS + freedom
    within = statistics.fmean([*_errors(after, len(ranks)), 0.0]) if after else 0.0
    variance = (PRIOR_RUNS * PRIOR_SPREAD**2 + sum(each**2 for each in residuals)) / weight
    spread = math.sqrt(max(variance, within**2))
    error = spread * math.sqrt(1 / len(old) + 1 / len(new))
    threshold = max(LEAST, _t(1 - RUN_PROBABILITY / len(ranks), weight) * error)
    nodes = next((row["rank_nodes"] for row in after if row.get("rank_nodes")), None)
    found = []
    for rank in ranks:
        excess = statistics.fmean(one[rank] for one in beyond)
        if excess > threshold:
            found.append({
                "rank": rank, "node": nodes[rank] if nodes else None,
                "slowdown": math.exp(excess),
            })  # fmt: skip
    return tuple(sorted(found, key=lambda each: -each["slowdown"]))


def _errors(rows: Sequence[Row], ranks: int) -> list[float]:
    """Relative standard errors within runs, where they are known."""
    return [
        error / own
        for row in rows
        if row.get("rank_own_error") and len(row["rank_own_error"]) == ranks
        for error, own in zip(row["rank_own_error"], row["rank_own_seconds"], strict=True)
        if own > 0
    ]


def _excess(old: list[list[float]], own: list[float], slow: set[int]) -> float:
    """Seconds that the culprits add to a step: all wait for the slowest of them."""
    expected = [statistics.fmean(math.log(each[rank]) for each in old) for rank in range(len(own))]
    gained = [math.log(now) - then for now, then in zip(own, expected, strict=True)]
    shared = statistics.median_low(gained)
    without = [
        math.exp(expected[rank] + shared) if rank in slow else own[rank] for rank in range(len(own))
    ]
    return max(own) - max(without)


def _by_the_others(
    old: Sequence[float], old_own: list[list[float]], own: list[float], slow: set[int]
) -> float:
    """Log step time without culprits, by what the other ranks' own time gained.

    Where one rank is behind in every step, the step no longer shows how the others vary, and what
    `_excess` takes out is too much; all else of the step is as it was then.
    """
    ranks = [rank for rank in range(len(own)) if rank not in slow]
    step = math.exp(statistics.fmean(old))
    if not ranks:
        return -math.inf
    gained = statistics.fmean(
        math.log(own[rank]) - statistics.fmean(math.log(each[rank]) for each in old_own)
        for rank in ranks
    )
    most = max(statistics.fmean(each[rank] for each in old_own) for rank in ranks)
    return math.log(max(step + most * (math.exp(gained) - 1), 1e-12))


def _spread(
    old: Sequence[float], new: Sequence[float], before: Sequence[Row], after: Sequence[Row]
) -> tuple[float, int]:
    """Standard deviation of a run's log speed, pooled with the prior, and degrees of freedom."""
    squares = sum(
        sum((each - statistics.fmean(group)) ** 2 for each in group) for group in (old, new)
    )
    freedom = PRIOR_RUNS + len(old) - 1 + len(new) - 1
    within = [
        row["step_seconds_error"] / row["step_seconds"]
        for row in (*before, *after) if row.get("step_seconds_error")
    ]  # fmt: skip
    # Before runs are compared, a run's own steps say how uncertain its median is at least.
    least = statistics.fmean(each**2 for each in within) if within else 0.0
    variance = (PRIOR_RUNS * max(PRIOR_SPREAD**2, least) + squares) / freedom
    return math.sqrt(variance), freedom


def _t(probability: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(probability, freedom))


def _sentence_and_facts(
    name: str, status: str, slowdown: float, interval: tuple[float, float], whole: float,
    smallest: float, culprits: Sequence[Mapping[str, Any]], changed: Sequence[str],
    before: Sequence[Row], after: Sequence[Row],
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    low, high = interval
    size = f"{_percent(slowdown)} ({_percent(low)} to {_percent(high)})"
    who = ", ".join(map(_who, culprits))
    what = (f"since then {' and '.join(changed)}" if changed
            else "and nothing that was recorded changed")  # fmt: skip
    sentence = {
        "regression": f"{name}: regression, all ranks take {size} longer; {what}.",
        "both": f"{name}: regression, all ranks take {size} longer; {what}. Beyond that, slow by"
                f" its own doing: {who}.",
        "culprit": f"{name}: no regression; slow by its own doing: {who}, which costs the run"
                   f" {_percent(whole / slowdown)}.",
        "slower": f"{name}: {size} slower, and whether all ranks or one is unknown: no source timed"
                  f" what they do themselves; {what}.",
        "faster": f"{name}: {_percent(1 / slowdown)} faster than the baseline; {what}.",
        "as-before": f"{name}: as before; {size} longer is within noise.",
        "unknown": f"{name}: unknown, the runs differ too much among themselves: {size} longer.",
    }[status]  # fmt: skip
    noticed = f"the smallest slowdown of all ranks that would be noticed: {_percent(smallest)}"
    facts = [f"{len(before)} before, {len(after)} after; {noticed}"]
    if changed and status in ("as-before", "culprit", "faster"):
        facts.append(f"changed: {'; '.join(changed)}")
    own = sorted({each for row in after for each in row.get("culprits") or []})
    if own:
        facts.append(f"verdicts of these runs name {', '.join(own)}")
    part = _partly(after, culprits)
    if part:
        facts.append(part)
    return sentence, tuple(facts)


def _who(culprit: Mapping[str, Any]) -> str:
    where = f" on {culprit['node']}" if culprit["node"] else ""
    return f"rank {culprit['rank']}{where} ({_percent(culprit['slowdown'])})"


def _partly(after: Sequence[Row], culprits: Sequence[Mapping[str, Any]]) -> str:
    """Whether the slow ranks are just those with another version than the rest."""
    slow = {str(each["rank"]) for each in culprits}
    for row in after:
        if not slow or not row.get("rank_versions"):
            continue
        for what, by_rank in _rank_versions(row).items():
            words = {by_rank.get(rank) for rank in slow}
            others = {word for rank, word in by_rank.items() if rank not in slow}
            if len(words) == 1 and None not in words and not words & others:
                return f"just these ranks have {what.replace('_', ' ')} {words.pop()}"
    return ""


def _rank_versions(row: Row) -> Mapping[str, Mapping[str, str]]:
    """What -> rank -> its version.

    Raises:
        BenchError: The column holds something else.
    """
    try:
        told = bounded_json.loads(row["rank_versions"])
    except ValueError:
        told = None
    if isinstance(told, dict) and all(isinstance(each, dict) for each in told.values()):
        return told
    who = f"{row.get('bench')} {row.get('cell')} repeat {row.get('repeat')}"
    raise BenchError(f"{who}: rank_versions is no JSON of versions by rank; leave that row out")


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.1f} %"


def _names(groups: Mapping[str, Sequence[Row]]) -> str:
    told = sorted({words_of(rows[0]) for rows in groups.values()})
    return "; ".join(told[:3]) + ("; …" if len(told) > 3 else "") if told else "none that finished"

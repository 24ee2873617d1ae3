"""Two tables that are never merged: what was wholly real, and what had simulated telemetry.

Both are real processes. A fault of the GPU's hardware shows in telemetry that a simulated GPU
tells; of all others the signals are real ones: times, the kernel's counters, the network's.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lockstep.evaluation import score_lines, trials
from lockstep.workloads.faults.kinds import GPU_KINDS

TABLES = {
    "real_signals": "real processes, wholly real signals",
    "simulated_telemetry": "real processes with simulated telemetry",
}
Line = Mapping[str, Any]


def table_of(kind: str) -> str:
    """The table that a fault of this kind counts in."""
    return "simulated_telemetry" if kind in GPU_KINDS else "real_signals"


def of_runs(lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """The figures of `score real`, table by table; the healthy runs stand in both."""
    from lockstep.evaluation.scoring.score import score, score_causes

    found = {}
    for name, mine in _split(lines, lambda line: line["truth"] and line["truth"]["kind"]).items():
        healthy = [line for line in lines if line["truth"] is None]
        cases = [trials.case(line) for line in (*mine, *healthy)]
        found[name] = {**score(cases), **score_causes(cases)}
    return found


def of_faults(lines: Iterable[Line]) -> dict[str, dict[str, Any]]:
    """The rates of `score faults`, table by table, with those of each cause and their mean."""
    from lockstep.evaluation.scoring.score import macro, rate

    found: dict[str, dict[str, Any]] = {}
    for name, mine in _split(lines, lambda line: line["fault"] and line["kind"]).items():
        causes = sorted({line["cause"] for line in mine})
        by_cause = {cause: _cause([one for one in mine if one["cause"] == cause])
                    for cause in causes}  # fmt: skip
        found[name] = {
            "rank_right": rate(sum(one["rank_right"] for one in mine), len(mine)),
            "cause_right": rate(sum(_is_right(one) for one in mine), len(mine)),
            "cause_macro": macro([row["cause"] for row in by_cause.values()]),
            "by_cause": by_cause,
        }
    return found


def printed(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Each table with its title; `baselines` beside where there are some."""
    parts = []
    for name, tree in tables.items():
        title = TABLES[name]
        figures = score_lines.figures({"baselines": {}, **tree}, "figure")
        parts += [f"{title}:\n{figures}", score_lines.causes(tree["by_cause"], "cause")]
    return parts


def _split(lines: Iterable[Line], kind: Any) -> dict[str, list[Line]]:
    """Table -> its lines with a fault; a table without any is left out."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        if kind(line):
            found.setdefault(table_of(kind(line)), []).append(line)
    return {name: found[name] for name in TABLES if name in found}


def _cause(mine: Sequence[Line]) -> dict[str, Any]:
    """As lockstep.evaluation.scoring.score has it."""
    from lockstep.evaluation.scoring.score import rate

    instead: dict[str, int] = {}
    for line in mine:
        if line["rank_right"] and not line["cause_right"]:
            said = " and ".join(sorted({one["cause"] for one in line["named"]}))
            instead[said] = instead.get(said, 0) + 1
    return {
        "found": rate(sum(line["rank_right"] for line in mine), len(mine)),
        "cause": rate(sum(_is_right(line) for line in mine), len(mine)),
        "instead": instead,
    }


def _is_right(line: Line) -> bool:
    return bool(line["rank_right"] and line["cause_right"])

"""What the verdict core weighs: `python -m tests.benchmarks.verdict_core [REVISION]...`.

The core is what lies between a loaded Run and the Verdict. Counted are its statements (as
`tests.benchmarks.weight`) and the numbers in it that somebody chose: numeric literals other than
-1, 0, 1 and 2, each place once; not those of a fitted table, which is data.
"""

import ast
import sys
from collections.abc import Mapping

from tests.benchmarks.weight import committed, statements

OLD = (
    "attribute", "pipeline", "case", "status", "cost/fixes", "model", "slowness", "detectors",
    "signs", "symptoms", "causes", "cause_spec", "cause_weights", "culprits", "structure",
    "workers", "trace_outliers", "from_operations", "foreign", "trace_verdict", "anomalies",
    "posterior", "doubt", "telemetry_quality", "rejected", "sentence", "same_work", "one_clock",
    "common_writes", "watch/upheld", "watch/concluded", "watch/history",
)  # fmt: skip
"""Below `analyzer/`, before it had rooms."""
ROOMS = (
    "align/same_work", "align/common_writes",
    "stats",
    "hangs/last_seen", "hangs/run_end", "hangs/onset", "hangs/detector",
    "causes",
    "stragglers/model", "stragglers/detectors", "stragglers/registry", "stragglers/confidence",
    "stragglers/imbalance", "stragglers/shared_causes",
    "operations/examine", "operations/observe", "operations/evidence", "operations/trace_evidence",
    "operations/structure", "operations/outliers", "operations/lateness",
    "hardware/anomalies",
    "verdict/pipeline", "verdict/case", "verdict/status", "verdict/culprits", "verdict/cost",
    "verdict/rejected", "verdict/sentence",
)  # fmt: skip
"""The same below `analyzer/` in its rooms."""
CORE = (*(f"analyzer/{name}" for name in (*OLD, *ROOMS)), "lockstep/diagnose/history")
"""Modules and folders, under the names of either time."""
NOT_CHOSEN = (-1, 0, 1, 2)
BEFORE = "933a2b2"


def main() -> dict[str, float]:
    """Statements and chosen numbers of HEAD's core, and their share of what they were."""
    then, now = counted(BEFORE), counted("HEAD")
    return {
        "core_statements": now["statements"],
        "core_statements_of_before": now["statements"] / then["statements"],
        "core_chosen_numbers": now["numbers"],
        "core_chosen_numbers_of_before": now["numbers"] / then["numbers"],
    }


def counted(revision: str) -> Mapping[str, int]:
    """Of the core's files in a revision."""
    core = {path: text for path, text in committed(revision).items() if in_core(path)}
    return {
        "files": len(core),
        "statements": sum(map(statements, core.values())),
        "numbers": sum(map(numbers, core.values())),
    }


def in_core(path: str) -> bool:
    """Whether a path is a module of the core, or in one of its folders."""
    name = path.removesuffix(".py")
    inside = any(name == module or name.startswith(f"{module}/") for module in CORE)
    return inside and path.endswith(".py")


def numbers(text: str) -> int:
    """Numeric literals that somebody chose."""
    return sum(
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and node.value not in NOT_CHOSEN
        for node in ast.walk(ast.parse(text))
    )


if __name__ == "__main__":
    for revision in sys.argv[1:] or (BEFORE, "HEAD"):
        print(revision, dict(counted(revision)))  # noqa: T201

"""What was injected into a run (truth.json), and whether a verdict agrees; for demo and score.

The analyzer never opens this file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.contract.archive import SCHEMA_VERSION, TRUTH_FILE
from lockstep.collector.contract.words import ExitCode
from lockstep.terminal.output import fail

if TYPE_CHECKING:
    from lockstep.analyzer.shapes.run import Verdict


def read(archive: Path) -> list[dict[str, Any]]:
    """The injected faults, one entry a rank; empty for a healthy run.

    Raises:
        CommandError: 65, no readable truth.json of this schema version.
    """
    path = archive / TRUTH_FILE
    try:
        truth = bounded_json.read(path)
    except (OSError, ValueError) as error:
        fail(ExitCode.BAD_INPUT, f"{path} cannot be read: {error}")
    if not isinstance(truth, dict) or truth.get("schema_version") != SCHEMA_VERSION:
        fail(ExitCode.BAD_INPUT, f"{path} is not of schema version {SCHEMA_VERSION}")
    faults = truth.get("faults")
    if not isinstance(faults, list) or not all(isinstance(each, dict) for each in faults):
        fail(ExitCode.BAD_INPUT, f"{path} has no list of faults")
    return faults


def sentence(fault: Mapping[str, Any]) -> str:
    """An injected fault in words."""
    words = f"{fault['kind']} on rank {fault['rank']} ({fault['node']}) from step"
    words += f" {fault['from_step']}"
    if fault["factor_intended"] is None:
        return words
    words += f", own time {fault['factor_intended']:.2f}x intended"
    if fault["factor_measured"] is not None:
        words += f", {fault['factor_measured']:.2f}x measured"
    return words


def disagreement(verdict: "Verdict", faults: Sequence[Mapping[str, Any]]) -> str | None:
    """Where a verdict differs from what was injected, or None when it names just that."""
    injected = {(fault["rank"], fault["node"], fault["cause"]) for fault in faults}
    named = {(each.rank, each.node, each.cause) for each in verdict.culprits}
    # A fault of a whole node has an entry a rank in truth.json, and the verdict may name the node.
    whole = {each.node for each in verdict.culprits if each.scope == "node"}
    places = {
        (None if fault.get("scope") == "node" and fault["node"] in whole else fault["rank"],
         fault["node"], fault["cause"])
        for fault in faults
    }  # fmt: skip
    if places == named:
        return None
    return f"injected {_places(injected)}, but the verdict names {_places(named)}"


def _places(places: set[tuple[int, str, str]] | set[tuple[int | None, str | None, str]]) -> str:
    return ", ".join(f"{cause} on rank {rank} ({node})" for rank, node, cause in places) or "nobody"

"""Keeps the stacks of ranks beside their dumps."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lockstep.analyzer.hangs.stacks import facts
from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE
from lockstep.collector.contract.stacks import FILE, Stacks, as_text


def save_stacks(folder: Path, evidence: dict[str, Any], stacks: Sequence[Stacks]) -> None:
    """Write them into a folder of dumps, and what they say into its evidence.

    Args:
        evidence: What stands in EVIDENCE_FILE there.

    Raises:
        OSError: They cannot be written.
    """
    told = [{"rank": one.rank, "kind": one.kind.value, "value": one.value} for one in facts(stacks)]
    tree = {**evidence, "facts": [*evidence["facts"], *told]}
    (folder / FILE).write_text(as_text(sorted(stacks, key=lambda one: one.rank)))
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))

"""Every query of a report is PromQL that asks for metrics which exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.report.document import document
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.collector.contract.metrics import METRICS

HOSTILE = 'a"}) or vector(1) #\\ \n'
PROMQL = re.compile(r"(?:^|· )([^·]*\blockstep_[^·]*)")


def queries(tree: dict[str, Any]) -> list[str]:
    """What stands in query columns and sources and names a metric in PromQL."""
    told: list[str] = []
    for section in tree["sections"]:
        for block in section["blocks"]:
            told.append(block.get("source", ""))
            names = [
                column["name"] for column in block.get("columns", ()) if block["block"] == "table"
            ]
            if "query" in names:
                told += [row[names.index("query")] for row in block["rows"]]
    found = [match for text in told for match in PROMQL.findall(text)]
    return list(
        dict.fromkeys(
            each.strip().removeprefix("samples.parquet: ")
            for each in found
            if ", lockstep_" not in each  # a list of metrics, not a query
        )
    )


def test_every_metric_of_a_query_is_in_the_contract(straggler: Callable[..., Diagnosis]) -> None:
    told = queries(document(straggler()))

    assert len(told) > 15
    assert (
        set()
        == {name for query in told for name in re.findall(r"\blockstep_\w+", query)}
        - METRICS.keys()
    )


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_every_query_parses_also_for_a_hostile_run(
    straggler: Callable[..., Diagnosis], tmp_path: Path
) -> None:
    diagnosis = straggler()
    hostile = replace(diagnosis, run=replace(diagnosis.run, name=HOSTILE))
    rules = [
        {"record": f"lockstep:query_{number}", "expr": query}
        for number, query in enumerate(queries(document(hostile)))
    ]
    file = tmp_path / "queries.json"
    file.write_text(json.dumps({"groups": [{"name": "report", "rules": rules}]}))
    told = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert 0 == told.returncode, told.stderr

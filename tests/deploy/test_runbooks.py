"""Every alert has a runbook that can be followed, and every runbook an alert."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lockstep.analyzer.causes.registry import CAUSE_WORDS
from lockstep.analyzer.rules.alert_rules.groups import WRITTEN, alerts
from lockstep.analyzer.rules.alert_rules.shape import Alert, Recording
from lockstep.app import COMMANDS
from lockstep.collector.contract.kernel_log import KINDS, TOLD
from lockstep.collector.contract.metrics import EVERY
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import PAGED, REPEATED, selector
from lockstep.collector.contract.xid_catalogue.shape import Repeats, Severity
from tests.deploy.promtool import program
from tests.docs.kernel_log import xid_table
from tests.docs.tables import table

FOLDER = Path(__file__).parents[2] / "deploy" / "runbooks"
PARTS = (
    "What it does to a synchronous run", "Confirm", "Likely causes, the most likely first",
    "What to do, and who", "How it clears", "False positives", "Where the threshold comes from",
)  # fmt: skip
ALERTS = alerts(WRITTEN)
RECORDED = {rule.name for group in WRITTEN for rule in group.rules if isinstance(rule, Recording)}


def table_of_causes() -> str:
    """Every cause: what a verdict says of a rank, and whose matter it is."""
    rows = [
        f"| `{cause}` | {CAUSE_WORDS[cause]} | {cause.family.word if cause.family else 'the run'} |"
        for cause in Cause
    ]
    return "\n".join(["| cause | of a rank | matter of |", "|---|---|---|", *rows])


def test_the_runbook_of_a_finding_has_every_cause(request: pytest.FixtureRequest) -> None:
    path, table = FOLDER / "LockstepFinding.md", table_of_causes()
    before, rest = path.read_text("utf-8").split("<!-- causes:begin -->\n")
    found, after = rest.split("<!-- causes:end -->")
    if request.config.getoption("--renew-goldens"):
        parts = (before, "<!-- causes:begin -->\n", table, "\n<!-- causes:end -->", after)
        path.write_text("".join(parts), "utf-8")
        return

    assert f"{table}\n" == found


def table_of_kinds(severity: Severity) -> str:
    """The kinds of lines of the kernel log that are told with a severity."""
    kinds = [KINDS[kind] for kind, each in TOLD if each is severity]
    return table(
        ("kind", "what", "what to do"),
        [(f"`{kind.kind}`", kind.text, kind.advice) for kind in kinds],
    )


TABLES: dict[tuple[str, str], Callable[[], str]] = {
    ("LockstepGpuXidFatal", "xids"): lambda: xid_table(PAGED),
    ("LockstepGpuXidContainedRepeated", "xids"): lambda: xid_table(REPEATED[Repeats.CONTAINED]),
    ("LockstepGpuXidAppRepeatedSameGpu", "xids"): lambda: xid_table(REPEATED[Repeats.APPLICATION]),
    ("LockstepKernelEventFatal", "kinds"): lambda: table_of_kinds(Severity.FATAL),
    ("LockstepKernelEventWarning", "kinds"): lambda: table_of_kinds(Severity.WARNING),
}
"""Of a runbook and what its table is about."""


@pytest.mark.parametrize(("runbook", "about"), TABLES)
def test_tables_of_runbooks_are_those_of_the_catalogue(
    runbook: str, about: str, request: pytest.FixtureRequest
) -> None:
    path, made = FOLDER / f"{runbook}.md", TABLES[runbook, about]()
    begin, end = f"<!-- {about}:begin -->\n", f"<!-- {about}:end -->"
    before, rest = path.read_text("utf-8").split(begin)
    found, after = rest.split(end)
    if request.config.getoption("--renew-goldens"):
        path.write_text("".join((before, begin, made, "\n", end, after)), "utf-8")
        return

    assert f"{made}\n" == found


def test_queries_of_runbooks_ask_for_the_xids_of_the_catalogue() -> None:
    sets = {selector(numbers) for numbers in (PAGED, *REPEATED.values())}
    asked = {
        matcher
        for path in FOLDER.iterdir()
        for matcher in re.findall(r'xid=~?"[^"]*"', path.read_text("utf-8"))
    }

    assert asked
    assert asked <= sets


def queries(text: str) -> list[str]:
    """Every query of a runbook."""
    blocks = re.findall(r"^```promql\n(.*?)^```", text, re.M | re.S)
    return [query.strip() for block in blocks for query in block.split("\n\n")]


def test_runbooks_and_alerts_are_the_same_both_ways() -> None:
    assert {f"{alert.full_name}.md" for alert in ALERTS} == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.full_name)
def test_a_runbook_has_all_its_parts_and_says_what_the_rule_says(alert: Alert) -> None:
    text = (FOLDER / f"{alert.full_name}.md").read_text("utf-8")
    title, facts, *_ = [line for line in text.splitlines() if line]
    parts = dict(re.findall(r"^## ([^\n]+)\n\n(.*?)(?=^## |\Z)", text, re.M | re.S))

    assert f"# {alert.full_name}" == title
    assert list(PARTS) == list(parts)
    assert all(part.strip() for part in parts.values())
    assert alert.name == "Finding" or f"Severity {alert.severity}" in facts
    assert f"action {alert.action}" in facts or not alert.action
    assert f"after {alert.wait}" in facts or not alert.wait
    assert alert.source == " ".join(parts[PARTS[-1]].split())
    assert queries(text)
    assert "```sh\n" in parts["Confirm"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.full_name)
def test_a_runbook_names_only_what_exists(alert: Alert) -> None:
    text = (FOLDER / f"{alert.full_name}.md").read_text("utf-8")
    names = set(re.findall(r"[\w:]*\blockstep_\w+[\w:]*", text))
    commands = set(re.findall(r"(?:^|`)lockstep ([a-z]+)", text, re.M))

    assert names <= EVERY.keys() | RECORDED
    assert commands <= {command.__name__ for command in COMMANDS}
    assert set(re.findall(r"Lockstep[A-Z]\w+", text)) <= {one.full_name for one in ALERTS}


@pytest.mark.prometheus
def test_every_query_of_the_runbooks_is_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"runbook:query:{number}", "expr": query}
        for number, query in enumerate(
            query for path in sorted(FOLDER.iterdir()) for query in queries(path.read_text("utf-8"))
        )
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))
    answer = subprocess.run([program(), "check", "rules", file], capture_output=True, text=True)

    assert 0 == answer.returncode, answer.stdout + answer.stderr

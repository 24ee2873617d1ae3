"""Cases as files of promtool, and what it says to each of them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lockstep.analyzer.rules.alert_rules.groups import WRITTEN, labels
from lockstep.analyzer.rules.alert_rules.shape import Alert, Group, Recording
from tests.deploy.cases.shape import Case, Labels, Probe, moments

Rule = dict[str, Any]
Mutation = Callable[[Rule], Rule]


def program() -> str:
    """Where promtool is; skips where it is not."""
    path = shutil.which("promtool")
    if path is None:
        pytest.skip("promtool is not installed")
    return path


def found(case: Case) -> tuple[Group, Alert]:
    """The alert of a case and its group."""
    return next(
        (group, rule)
        for group in WRITTEN
        for rule in group.rules
        if isinstance(rule, Alert) and rule.name == case.alert
    )


def verdicts(
    folder: Path, cases: Iterable[Case], mutated: Callable[[Case], Mutation] = lambda _: dict
) -> dict[str, str]:
    """What is wrong by case, empty where nothing is: one promtool over all of them."""
    names = {case.key: _written(folder, case, mutated(case)) for case in cases}
    answer = subprocess.run(
        [program(), "test", "rules", *(name for pair in names.values() for name in pair)],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    said = re.split(r"^Unit Testing:\s+", answer.stdout, flags=re.M)[1:]
    well = {part.partition("\n")[0].strip() for part in said if "SUCCESS" in part}
    wrong = re.split(r"(?=^    name: )", answer.stderr, flags=re.M)
    return {
        key: "" if well.issuperset(pair)
        else "".join(one for one in wrong if f"name: {key}: " in one) or answer.stderr
        for key, pair in names.items()
    }  # fmt: skip


def _written(folder: Path, case: Case, mutated: Mutation) -> tuple[str, str]:
    """Names of two tests: when it fires, without annotations; and once what it says.

    Annotations would have to be repeated for each moment.
    """
    group, alert = found(case)
    rule: Rule = {"alert": alert.full_name, "expr": alert.expression, "labels": labels(alert)}
    lasting = {"for": alert.wait, "keep_firing_for": alert.keep}
    rule = mutated(rule | {name: time for name, time in lasting.items() if time})
    recordings = [
        {"record": one.name, "expr": one.expression} for one in _recordings(alert.expression)
    ]
    at = next(moment for moment, fires in moments(case.fires[0]) if fires)
    tests = [_test(case, claim, probe) for claim, probe in case.probes().items()]
    says = _test(case, "says what it should", (case.fires[0][0], f"+{at}"), case.summary)
    for name, one, of in (
        (case.key, rule, tests),
        (f"{case.key}.says", rule | {"annotations": {"summary": alert.summary}}, [says]),
    ):
        rules = {"groups": [{"name": group.name, "rules": [*recordings, one]}]}
        test = {
            "rule_files": [f"{name}.rules.yml"], "evaluation_interval": case.interval, "tests": of,
        }  # fmt: skip
        # JSON is YAML too.
        (folder / f"{name}.rules.yml").write_text(json.dumps(rules))
        (folder / f"{name}.test.yml").write_text(json.dumps(test))
    return f"{case.key}.test.yml", f"{case.key}.says.test.yml"


def _recordings(expression: str) -> list[Recording]:
    """Those that an expression reads, itself or by another, in the order of the file."""
    written = [rule for group in WRITTEN for rule in group.rules if isinstance(rule, Recording)]
    names = {rule.name for rule in written if rule.name in expression}
    for rule in reversed(written):
        if rule.name in names:
            names |= {other.name for other in written if other.name in rule.expression}
    return [rule for rule in written if rule.name in names]


def _test(case: Case, claim: str, probe: Probe, summary: str = "") -> dict[str, Any]:
    changes = probe[0]
    assert changes.keys() <= case.series.keys(), (case.key, claim)
    alert = found(case)[1]
    added = labels(alert) | ({"severity": case.severity} if case.severity else {})
    whom: list[Labels] = probe[2] if len(probe) == 3 else [case.labels]
    says = {"exp_annotations": {"summary": summary}} if summary else {}
    return {
        "name": f"{case.key}: {claim}",
        "interval": case.interval,
        "input_series": [
            {"series": series, "values": changes.get(name, values)}
            for name, (series, values) in case.series.items()
        ],
        "alert_rule_test": [
            {
                "eval_time": at,
                "alertname": alert.full_name,
                "exp_alerts": [{"exp_labels": one | added, **says} for one in whom if fires],
            }
            for at, fires in moments(probe)
        ],
    }

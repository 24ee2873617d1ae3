"""The Alertmanager configuration of the standalone set-up, by Alertmanager's own tool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[2] / "deploy" / "standalone" / "alertmanager.yml"
EXAMPLE = re.compile(r"(?m)^( *)# ( *(?:- |[a-zA-Z_]+:|\{\{|<\{\{))")
"""Lines of the examples: comments that are YAML."""
WORDS = FILE.with_name("lockstep.tmpl")


def amtool(*words: str) -> str:
    program = shutil.which("amtool")
    if program is None:
        pytest.skip("amtool is not installed")
    answer = subprocess.run([program, *words], capture_output=True, text=True)
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture
def with_examples(tmp_path: Path) -> Path:
    path = tmp_path / "alertmanager.yml"
    path.write_text(EXAMPLE.sub(r"\1\2", FILE.read_text("utf-8")))
    return path


def receivers(file: Path, **labels: str) -> set[str]:
    words = [f"{name}={value}" for name, value in labels.items()]
    return set(
        amtool("config", "routes", "test", f"--config.file={file}", *words).strip().split(",")
    )


def test_alerts_of_one_node_are_grouped_and_only_alerts_with_a_node_mute_others():
    tree = yaml.safe_load(FILE.read_text("utf-8"))

    assert ["alertname", "node"] == tree["route"]["group_by"]
    for rule in tree["inhibit_rules"]:
        assert ["node"] == rule["equal"]
        assert 'node=~".+"' in rule["source_matchers"]
        assert 'node=~".+"' in rule["target_matchers"]


def test_all_that_slack_is_told_is_escaped_but_addresses():
    text = WORDS.read_text("utf-8")
    slack = "".join(re.findall(r'(?s)define "lockstep\.slack\.t.*?(?=\{\{/\*|\{\{ define)', text))

    assert {"lockstep.slack.escaped"} == set(re.findall(r'template "([^"]*)"', slack))
    escaped = r'(?!template "lockstep\.slack\.escaped" )'
    assert [] == re.findall(rf"\{{\{{ {escaped}[^}}]*Annotations\.(?:summary|description)", slack)
    assert [] == re.findall(r"\{\{-? \.Annotations", slack)
    assert [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")] == re.findall(
        r'reReplaceAll "(.)" "([^"]*)"', text
    )


@pytest.mark.prometheus
class TestAmtool:
    def test_the_configuration_is_valid_with_and_without_the_examples(self, with_examples: Path):
        assert "2 receivers" in amtool("check-config", str(FILE))
        assert "5 receivers" in amtool("check-config", str(with_examples))

    def test_what_fires_goes_to_watch_and_with_examples_to_both(self, with_examples: Path):
        critical = {"alertname": "LockstepGpuXidFatal", "severity": "critical"}
        warning = {"alertname": "LockstepStragglerNode", "severity": "warning"}
        always = {"alertname": "LockstepWatchdog", "severity": "none"}

        people = {"lockstep", "slack", "email"}

        assert [{"lockstep"}, {"lockstep"}, {"nobody"}] == [
            receivers(FILE, **one) for one in (critical, warning, always)
        ]
        assert [people | {"pagerduty"}, people, {"nobody"}] == [
            receivers(with_examples, **one) for one in (critical, warning, always)
        ]


@pytest.mark.parametrize("template", ["lockstep.title", "lockstep.slack.title"])
@pytest.mark.parametrize("status", ["firing", "resolved"])
@pytest.mark.parametrize("alerts", [1, 3])
@pytest.mark.parametrize("letter", ["a", "é"])
def test_titles_fit_a_telephone(tmp_path, template, status, alerts, letter):
    line = letter * 120
    one = {"status": status, "labels": {}, "annotations": {"summary": line}}
    group = {"run": "gpt", "node": "gpu-17"}
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"status": status, "alerts": [one] * alerts, "groupLabels": group}))
    of = " of run gpt on gpu-17" if template == "lockstep.title" else ""
    over = "Over: " if status == "resolved" else ""
    many = f"{alerts} alerts{of}: " if alerts > 1 else ""
    text = f'{{{{ template "{template}" . }}}}'
    title = amtool(
        "template", "render", f"--template.glob={WORDS}", f"--template.text={text}",
        f"--template.data={data}",
    )  # fmt: skip

    assert f"{over}{many}{line}"[:120] == title.rstrip("\n")

"""The Alertmanager configuration of the standalone set-up, by Alertmanager's own tool."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).parents[2] / "deploy" / "standalone" / "alertmanager.yml"
EXAMPLE = re.compile(r"(?m)^( *)# ( *(?:- |[a-z_]+:|\{\{|<\{\{))")
"""Lines of the Slack example: comments that are YAML."""


def amtool(*words: str) -> str:
    program = shutil.which("amtool")
    if program is None:
        pytest.skip("amtool is not installed")
    answer = subprocess.run([program, *words], capture_output=True, text=True)
    assert 0 == answer.returncode, answer.stdout + answer.stderr
    return answer.stdout


@pytest.fixture
def with_slack(tmp_path: Path) -> Path:
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


def test_every_label_of_the_slack_example_is_escaped():
    shown = re.findall(r"\{\{ (\.Annotations\.(?!runbook_url)[^}]*)\}\}", FILE.read_text("utf-8"))

    assert len(shown) == 2
    for one in shown:
        assert [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")] == re.findall(
            r'reReplaceAll "(.)" "([^"]*)"', one
        )


@pytest.mark.prometheus
class TestAmtool:
    def test_the_configuration_is_valid_with_and_without_slack(self, with_slack: Path):
        assert "2 receivers" in amtool("check-config", str(FILE))
        assert "3 receivers" in amtool("check-config", str(with_slack))

    def test_what_fires_goes_to_watch_and_with_slack_to_both(self, with_slack: Path):
        critical = {"alertname": "LockstepGpuXidFatal", "severity": "critical"}
        warning = {"alertname": "LockstepStragglerNode", "severity": "warning"}
        always = {"alertname": "LockstepWatchdog", "severity": "none"}

        both = {"lockstep", "slack"}

        assert [{"lockstep"}, {"lockstep"}, {"nobody"}] == [
            receivers(FILE, **one) for one in (critical, warning, always)
        ]
        assert [both, both, {"nobody"}] == [
            receivers(with_slack, **one) for one in (critical, warning, always)
        ]

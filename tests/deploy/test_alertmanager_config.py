"""The Alertmanager configuration of the standalone set-up, by Alertmanager's own tool."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from lockstep.analyzer.rules.alert_rules.groups import ALERTS
from tests.deploy.cases import CASES

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


def holds(matcher: str, labels: dict[str, str]) -> bool:
    name, sign, value = re.fullmatch(r'(\w+)(=~?|!=)"?(.*?)"?', matcher).groups()
    text = labels.get(name, "")
    return {
        "=": text == value, "!=": text != value, "=~": bool(re.fullmatch(value, text)),
    }[sign]  # fmt: skip


def conversation(route: dict, labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels by which an alert that takes this route is grouped."""
    for inner in route.get("routes", []):
        if all(holds(one, labels) for one in inner["matchers"]):
            return conversation(inner | {"group_by": inner.get("group_by", route["group_by"])},
                                labels)  # fmt: skip
    return tuple((name, labels.get(name, "")) for name in route["group_by"])


def people(file: Path) -> list[dict]:
    routes = yaml.safe_load(file.read_text("utf-8"))["route"]["routes"]
    return [one for one in routes if one["receiver"] in ("slack", "pagerduty", "email")]


def test_alerts_of_a_run_are_one_conversation_and_node_level_alerts_one_a_node(with_examples: Path):
    run = [case.labels for case in CASES if case.labels.keys() >= {"run"}]
    node = [case.labels for case in CASES if "node" in case.labels and "run" not in case.labels]

    assert 3 == len(people(with_examples))
    assert run
    assert node
    for route in people(with_examples):
        assert {(("run", "r"),)} == {conversation(route, labels) for labels in run}
        for name in ("a", "b"):
            assert {(("node", name),)} == {
                conversation(route, labels | {"node": name}) for labels in node
            }


def test_only_alerts_that_have_the_labels_of_an_inhibition_mute_others():
    tree = yaml.safe_load(FILE.read_text("utf-8"))

    assert ["alertname", "node"] == tree["route"]["group_by"]
    for rule in tree["inhibit_rules"]:
        for name in rule["equal"]:
            assert f'{name}=~".+"' in rule["source_matchers"]
            assert f'{name}=~".+"' in rule["target_matchers"]


def muted(source: tuple[str, dict], target: tuple[str, dict]) -> bool:
    """Whether one alert, by its name and labels, mutes another by the shipped configuration."""
    whole = [
        {"alertname": f"Lockstep{name}", "severity": SEVERITIES[name], **labels}
        for name, labels in (source, target)
    ]
    return any(
        all(holds(one, whole[0]) for one in rule["source_matchers"])
        and all(holds(one, whole[1]) for one in rule["target_matchers"])
        and all(whole[0].get(name) == whole[1].get(name) for name in rule["equal"])
        for rule in yaml.safe_load(FILE.read_text("utf-8"))["inhibit_rules"]
    )


GPU = {"node": "a", "gpu": "0", "uuid": "GPU-0"}
PORT = {"node": "a", "device": "mlx5_0", "port": "1"}
SEVERITIES = {alert.name: str(alert.severity) for alert in ALERTS} | {"Finding": "critical"}


@pytest.mark.parametrize(
    ("cause", "follows", "elsewhere"),
    [
        (("CollectorDown", {"node": "a"}), ("CollectorStale", {"node": "a", "source": "nvml"}),
         {"node": "b"}),
        (("GpuLost", GPU), ("NvlinkDown", GPU), {"gpu": "1"}),
        (("GpuRecoveryActionRequired", GPU), ("NvlinkCrcRateHigh", GPU), {"node": "b"}),
        (("IbLinkDown", PORT), ("IbLinkDownedCounter", PORT), {"device": "mlx5_1"}),
        (("RankGone", {"run": "r", "node": "a"}), ("RunStalled", {"run": "r"}), {"run": "s"}),
        (("RunStalled", {"run": "r"}), ("CommunicatorStuck", {"run": "r", "group": "dp"}),
         {"run": "s"}),
        (("NvswitchSxidFatal", {"node": "a", "nvswitch": "0"}), ("GpuFabricUnhealthy", GPU),
         {"node": "b"}),
        (("Finding", {"run": "r", "node": "a"}), ("RunSlowVsBaseline", {"run": "r"}), {"run": "s"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_cause_mutes_what_follows_from_it_there_and_nowhere_else(cause, follows, elsewhere):
    name, labels = follows

    assert muted(cause, follows)
    assert not muted(cause, (name, labels | elsewhere))
    assert not muted(cause, (name, {}))
    assert not muted(follows, cause)


def test_every_inhibition_by_name_names_alerts_that_exist():
    names = {alert.full_name for alert in ALERTS}
    for rule in yaml.safe_load(FILE.read_text("utf-8"))["inhibit_rules"]:
        for one in rule["source_matchers"] + rule["target_matchers"]:
            if one.startswith("alertname"):
                for part in re.split(r"[|](?![^(]*\))", one.partition('"')[2].rstrip('"')):
                    assert any(re.fullmatch(part, name) for name in names), part


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


@pytest.mark.parametrize(
    "template", ["lockstep.text", "lockstep.slack.text", "lockstep.email.html"]
)
@pytest.mark.parametrize("status", ["firing", "resolved"])
def test_an_alert_that_is_over_commands_nothing(tmp_path, template, status):
    texts = {"summary": "it is slow", "description": "why", "command": "kubectl drain a"}
    one = {"status": status, "labels": {}, "annotations": texts}
    data = tmp_path / "data.json"
    data.write_text(json.dumps({"status": status, "alerts": [one], "groupLabels": {}}))
    text = amtool(
        "template", "render", f"--template.glob={WORDS}",
        f'--template.text={{{{ template "{template}" . }}}}', f"--template.data={data}",
    )  # fmt: skip

    assert ("Do first" in text, "kubectl drain a" in text) == (status == "firing",) * 2
    assert "why" in text


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

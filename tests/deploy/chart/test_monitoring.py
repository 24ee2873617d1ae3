"""What the chart tells Prometheus, Alertmanager and Grafana."""

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from lockstep.cli.rule_files import rule_files
from lockstep.watch.serve.pages import (
    DASHBOARD_VARIABLE,
    GRAFANA_VARIABLE,
    RUNBOOKS_VARIABLE,
    addresses,
)
from tests.deploy.chart.chart import DEPLOY, render, values_files

LINKS = {
    "runbooks": "https://wiki.example/r", "dashboard": "https://pages.example",
    "grafana": "https://graphs.example/d",
}  # fmt: skip
CONTROLLER_LABELS = {"container", "endpoint", "namespace", "pod"}


def monitors(values=None) -> dict[str, dict]:
    return {one["metadata"]["name"]: one for one in render(values)["podmonitors.yaml"]}


def relabelings(monitor: dict) -> list[dict]:
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    return endpoint["relabelings"]


def test_the_rules_are_those_that_the_command_writes_for_the_same_addresses():
    where = addresses({
        RUNBOOKS_VARIABLE: LINKS["runbooks"], DASHBOARD_VARIABLE: LINKS["dashboard"],
        GRAFANA_VARIABLE: LINKS["grafana"],
    })  # fmt: skip
    written = rule_files(where)

    for rule in render({"links": LINKS})["rules.yaml"]:
        text = written[f"{rule['metadata']['name']}.rules.yml"]
        assert yaml.safe_load(text) == rule["spec"]


def test_rules_are_the_same_with_and_without_the_operator():
    [config] = render({"monitoring": {"operator": False}})["rules.yaml"]

    for rule in render()["rules.yaml"]:
        assert rule["spec"] == yaml.safe_load(
            config["data"][f"{rule['metadata']['name']}.rules.yml"]
        )


def test_a_collectors_series_carry_its_node_and_the_job_that_rules_expect():
    found = relabelings(monitors()["lockstep-collector"])
    node = ["__meta_kubernetes_pod_node_name"]

    assert {"sourceLabels": node, "targetLabel": "node"} in found
    assert {"sourceLabels": node, "targetLabel": "instance"} in found
    assert {"targetLabel": "job", "replacement": "lockstep-collector"} in found


def test_an_address_stays_the_instance_where_watch_asks_it_for_operations():
    found = relabelings(monitors({"monitoring": {"instance": "address"}})["lockstep-collector"])

    assert "instance" not in [one.get("targetLabel") for one in found]


def test_watchs_series_keep_their_own_node():
    found = relabelings(monitors()["lockstep-analyzer"])

    assert {"job"} == {one["targetLabel"] for one in found if "targetLabel" in one}


@pytest.mark.parametrize("name", ["lockstep-collector", "lockstep-analyzer", "lockstep-nodes"])
def test_no_label_of_a_page_is_renamed(name: str):
    [dropped] = [
        one for one in relabelings(monitors({"nodes": {"enabled": True}})[name])
        if one.get("action") == "labeldrop"
    ]  # fmt: skip

    assert CONTROLLER_LABELS == set(dropped["regex"].split("|"))


@pytest.mark.parametrize(("told", "timeout"), [
    ({}, None), ({"interval": "5s"}, None), ({"interval": "1m", "scrapeTimeout": "60s"}, "60s"),
])  # fmt: skip
def test_a_scrape_is_never_given_longer_than_the_interval(told, timeout):
    # Without one Prometheus takes its own, and cuts it to the interval.
    for monitor in monitors({"monitoring": told}).values():
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert timeout == endpoint.get("scrapeTimeout")
    [config] = render({"monitoring": {"operator": False, **told}})["rules.yaml"]
    for job in yaml.safe_load(config["data"]["scrape.yml"])["scrape_configs"]:
        assert timeout == job.get("scrape_timeout")


def test_prometheus_selects_by_the_labels_that_it_is_told():
    values = {"monitoring": {"labels": {"prometheus": "main"}}}
    for template in ("podmonitors.yaml", "rules.yaml"):
        for one in render(values)[template]:
            assert "main" == one["metadata"]["labels"]["prometheus"]


def test_alerts_reach_watch_as_in_the_standalone_set_up():
    values = {"monitoring": {"alertmanagerConfig": {"enabled": True}}}
    [config] = render(values)["alertmanagerconfig.yaml"]
    spec = config["spec"]
    standalone = yaml.safe_load((DEPLOY / "standalone" / "alertmanager.yml").read_text())
    route = next(one for one in standalone["route"]["routes"] if one["receiver"] == "lockstep")

    assert (route["group_by"], route["group_wait"], route["group_interval"]) == (
        spec["route"]["groupBy"], spec["route"]["groupWait"], spec["route"]["groupInterval"],
    )  # fmt: skip
    assert [
        {"source_matchers": matchers(one["sourceMatch"]),
         "target_matchers": matchers(one["targetMatch"]), "equal": one["equal"]}
        for one in spec["inhibitRules"]
    ] == standalone["inhibit_rules"]  # fmt: skip
    [webhook] = spec["receivers"][0]["webhookConfigs"]
    assert "http://lockstep-watch.lockstep.svc:9411/alertmanager" == webhook["url"]


def test_whoever_configures_an_alertmanager_finds_the_token_in_a_secret():
    rendered = render()
    [secret] = rendered["webhook-secret.yaml"]
    spec = rendered["watch-deployment.yaml"][0]["spec"]["template"]["spec"]

    assert 43 == len(base64.b64decode(secret["data"]["token"]))
    assert secret["metadata"]["name"] in [
        one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one
    ]
    assert "--webhook-token-file=/etc/lockstep/webhook/token" in spec["containers"][0]["args"]


@pytest.mark.parametrize("change", [{"webhookTokenSecret": "hook"}, {"createWebhookSecret": False}])
def test_no_secret_is_made_that_somebody_else_makes(change):
    assert "webhook-secret.yaml" not in render({"watch": change})


def test_where_alerts_reach_watch_both_have_the_token_that_the_chart_makes():
    rendered = render({"monitoring": {"alertmanagerConfig": {"enabled": True}}})
    [secret] = rendered["webhook-secret.yaml"]
    [webhook] = rendered["alertmanagerconfig.yaml"][0]["spec"]["receivers"][0]["webhookConfigs"]
    spec = rendered["watch-deployment.yaml"][0]["spec"]["template"]["spec"]
    credentials = webhook["httpConfig"]["authorization"]["credentials"]

    assert secret["metadata"]["name"] == credentials["name"]
    assert 43 == len(base64.b64decode(secret["data"][credentials["key"]]))
    assert secret["metadata"]["name"] in [
        one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one
    ]


def matchers(told: list[dict]) -> list[str]:
    return [f'{one["name"]}{one["matchType"]}"{one["value"]}"' for one in told]


def test_a_webhook_token_is_asked_for_and_given():
    values = {"watch": {"webhookTokenSecret": "hook"},
              "monitoring": {"alertmanagerConfig": {"enabled": True}}}  # fmt: skip
    rendered = render(values)
    [webhook] = rendered["alertmanagerconfig.yaml"][0]["spec"]["receivers"][0]["webhookConfigs"]
    spec = rendered["watch-deployment.yaml"][0]["spec"]["template"]["spec"]

    assert {"name": "hook", "key": "token"} == webhook["httpConfig"]["authorization"]["credentials"]
    assert "--webhook-token-file=/etc/lockstep/webhook/token" in spec["containers"][0]["args"]


def test_the_reading_half_of_the_api_is_served_for_a_token_out_of_a_secret_and_to_whom_it_says():
    peer = {"podSelector": {"matchLabels": {"app": "reader"}}}
    values = {"watch": {"apiTokenSecret": "api"}, "networkPolicy": {"apiFrom": [peer]}}
    rendered = render(values)
    spec = rendered["watch-deployment.yaml"][0]["spec"]["template"]["spec"]
    [container] = spec["containers"]
    [volume] = [each for each in spec["volumes"] if each["name"] == "api"]
    [policy] = [each for each in rendered["networkpolicies.yaml"]
                if each["metadata"]["name"] == "lockstep-watch"]  # fmt: skip
    [rule] = policy["spec"]["ingress"]

    told = {"name": "LOCKSTEP_API_TOKEN_FILE", "value": "/etc/lockstep/api/token"}
    assert told in container["env"]
    mount = {"name": "api", "mountPath": "/etc/lockstep/api", "readOnly": True}
    assert mount in container["volumeMounts"]
    secret = volume["secret"]
    assert ("api", [{"key": "token", "path": "token"}]) == (secret["secretName"], secret["items"])
    assert peer in rule["from"]
    assert [9411] == [each["port"] for each in rule["ports"]]
    by_default = str(render()["watch-deployment.yaml"] + render()["networkpolicies.yaml"])
    assert "api" not in by_default.replace("apiVersion", "")


def test_dashboards_are_whole_and_lead_to_the_pages():
    for config in render({"links": LINKS})["grafana-dashboards.yaml"]:
        [(name, text)] = config["data"].items()
        assert json.loads(text)["uid"] == name.removesuffix(".json")
        assert "http://127.0.0.1:8501" not in text
        assert LINKS["dashboard"] in text


def test_the_dashboard_links_to_a_grafana_that_somebody_named():
    def words(values=None) -> str:
        return str(render(values)["dashboard-deployment.yaml"])

    assert "--grafana=https://graphs.example'" in words({"links": LINKS})
    assert "--grafana" not in words()


def test_texts_of_watch_lead_where_those_of_rules_do():
    [deployment] = render({"links": LINKS})["watch-deployment.yaml"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}

    assert {RUNBOOKS_VARIABLE: LINKS["runbooks"], DASHBOARD_VARIABLE: LINKS["dashboard"],
            GRAFANA_VARIABLE: LINKS["grafana"]}.items() <= told.items()  # fmt: skip


@pytest.mark.prometheus
@pytest.mark.parametrize("name", values_files())
def test_prometheus_takes_what_it_gets_without_the_operator(tmp_path: Path, name: str):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    values = values_files()[name]
    without = {"operator": False, "alertmanagerConfig": {}}
    [config] = render(values | {"monitoring": values.get("monitoring", {}) | without})["rules.yaml"]
    rules = [file for file in config["data"] if file.endswith(".rules.yml")]
    for file in rules:
        (tmp_path / file).write_text(config["data"][file])
    # Prometheus 2.43 reads scrape.yml as a file of its own; Debian's is older, and built without
    # the discovery of Kubernetes.
    scrape = yaml.safe_load(config["data"]["scrape.yml"])
    for job in scrape["scrape_configs"]:
        [found] = job.pop("kubernetes_sd_configs")
        assert ("pod", {"names"}) == (found["role"], found["namespaces"].keys())
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"rule_files": rules, **scrape}))
    answer = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip

    assert 0 == answer.returncode, answer.stdout + answer.stderr

"""Files from which Grafana takes source and dashboards."""

from pathlib import Path

import yaml

from lockstep.grafana.book import FOLDER

DEPLOY = Path(__file__).parents[2] / "deploy" / "standalone"
PROVISIONING = DEPLOY / "grafana" / "provisioning"
README = (DEPLOY / "grafana" / "README.md").read_text("utf-8")


def test_dashboards_come_from_files_and_nobody_edits_them_in_grafana():
    told = yaml.safe_load((PROVISIONING / "dashboards" / "lockstep.yml").read_text("utf-8"))
    [provider] = told["providers"]

    assert (1, "Lockstep", "file", False, True) == (
        told["apiVersion"], provider["folder"], provider["type"], provider["allowUiUpdates"],
        provider["disableDeletion"],
    )  # fmt: skip
    assert provider["options"]["path"] in README
    assert f"{FOLDER.parent.name}/{FOLDER.name}/*.json" in README


def test_the_source_is_the_prometheus_of_the_standalone_set_up():
    told = yaml.safe_load((PROVISIONING / "datasources" / "lockstep.yml").read_text("utf-8"))
    service = (DEPLOY / "systemd" / "lockstep-prometheus.service").read_text("utf-8")
    prometheus = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    [source] = told["datasources"]

    assert (1, "prometheus", True) == (told["apiVersion"], source["type"], source["isDefault"])
    assert source["url"].removeprefix("http://") in service
    assert prometheus["global"]["scrape_interval"] == source["jsonData"]["timeInterval"]

"""The rule files of deploy/rules/: recording rules and alerts, each plain and as an object."""

from pathlib import Path

from lockstep.analyzer.rules.alert_rules.groups import GROUPS, plain, prometheus_rule
from lockstep.analyzer.rules.alert_rules.shape import PLACEHOLDERS, Addresses
from lockstep.analyzer.rules.recording_rules.rules import rules as peer_rules
from lockstep.collector.contract.whole_file import write_whole

ALERTS_HEAD = (
    "# Alerts of Lockstep: each has a runbook, deploy/runbooks/<alert>.md, and tests,\n"
    "# tests/deploy/. Load it beside lockstep-peers. Rules whose series this version does not\n"
    "# export are left out.\n"
    "#\n"
    "# Every target that is a collector needs the label `node`, its node's name. Where service\n"
    "# discovery gives none, in the job's relabel_configs of Prometheus:\n"
    "#   - source_labels: [__address__]   # or __meta_kubernetes_pod_node_name\n"
    "#     regex: (.+):\\d+                # then: (.+)\n"
    "#     target_label: node\n"
    "# The target of `lockstep watch` must have none. Jobs may have any name.\n"
    "#\n"
    "# keep_firing_for needs Prometheus 2.42 or Thanos 0.34; in the object the operator's 0.66.\n"
    "# vmalert that does not know it refuses this file: docs/sre/servers.md.\n"
    "#\n"
    "# Generated: `lockstep rules --out deploy/rules` writes this file; do not edit it.\n"
)


def rule_files(addresses: Addresses = PLACEHOLDERS) -> dict[str, str]:
    """Every rule file by its name; `.prometheusrule.yaml` is for the Prometheus operator.

    Args:
        addresses: Where annotations of alerts point to.
    """
    texts = {
        "lockstep-peers": peer_rules(), "lockstep-alerts": plain(GROUPS, ALERTS_HEAD, addresses),
    }  # fmt: skip
    return {
        **{f"{name}.rules.yml": text for name, text in texts.items()},
        **{
            f"{name}.prometheusrule.yaml": prometheus_rule(name, text)
            for name, text in texts.items()
        },
    }


def write(folder: Path, addresses: Addresses) -> None:
    """Write all of them; a Prometheus that reads meanwhile sees the old or the new one.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in rule_files(addresses).items():
        write_whole(folder / name, text, mode=None)


def stale_files(folder: Path, addresses: Addresses) -> list[str]:
    """Names of the files there that are missing or not what this version generates.

    Raises:
        OSError: A file is there and cannot be read.
    """
    return [
        name
        for name, text in rule_files(addresses).items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode("utf-8")
    ]

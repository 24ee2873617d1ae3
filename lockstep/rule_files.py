"""The rule files of deploy/rules/: recording rules and alerts, each plain and as an object."""

import os
from pathlib import Path

from analyzer.alert_rules.groups import GROUPS
from analyzer.alert_rules.render import plain, prometheus_rule
from analyzer.pushdown.rules import rules as peer_rules

ALERTS_HEAD = (
    "# Alerts of Lockstep: each has a runbook, deploy/runbooks/<alert>.md, and tests,\n"
    "# tests/deploy/. Load it beside lockstep-peers. The series of reference runs and of the\n"
    "# remediator are not exported yet: LockstepReferenceRunFailed, LockstepReferenceBusbwLow,\n"
    "# LockstepRemediationBreakerTripped and LockstepQuarantineStuck stay silent until they are.\n"
    "# Generated: `lockstep rules --out deploy/rules` writes this file; do not edit it.\n"
)


def rule_files() -> dict[str, str]:
    """Every rule file by its name; `.prometheusrule.yaml` is for the Prometheus operator."""
    texts = {"lockstep-peers": peer_rules(), "lockstep-alerts": plain(GROUPS, ALERTS_HEAD)}
    return {
        **{f"{name}.rules.yml": text for name, text in texts.items()},
        **{
            f"{name}.prometheusrule.yaml": prometheus_rule(name, text)
            for name, text in texts.items()
        },
    }


def write(folder: Path) -> None:
    """Write all of them; a Prometheus that reads meanwhile sees the old or the new one.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in rule_files().items():
        half = folder / f".{name}.half"
        half.write_text(text, encoding="utf-8")
        os.replace(half, folder / name)


def stale(folder: Path) -> list[str]:
    """Names of the files there that are missing or not what this version generates.

    Raises:
        OSError: A file is there and cannot be read.
    """
    return [
        name
        for name, text in rule_files().items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode("utf-8")
    ]

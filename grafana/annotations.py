"""What is drawn across all lines: findings, errors of GPUs, starts of runs, checkpoints."""

from lockstep.grafana.settings import Json
from lockstep.grafana.targets import RATE, SOURCE


def annotations(*more: Json) -> list[Json]:
    """Grafana's own ones, and these."""
    own: Json = {
        "builtIn": 1, "name": "Annotations & Alerts", "type": "dashboard", "enable": True,
        "hide": True, "iconColor": "rgba(0, 211, 255, 1)",
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
    }  # fmt: skip
    return [own, *more]


def _events(name: str, expression: str, title: str, text: str, color: str) -> Json:
    return {
        "name": name, "datasource": SOURCE, "enable": True, "hide": False, "iconColor": color,
        "expr": expression, "step": "15s", "titleFormat": title, "textFormat": text,
        "tagKeys": "", "useValueForTime": False,
    }  # fmt: skip


def findings(selector: str) -> Json:
    """Findings while they are open; `selector` names whose."""
    return _events(
        "Findings",
        f"max by (run, node, rank, gpu, cause, tier) (lockstep_finding_active{{{selector}}}) == 1",
        "Finding: {{cause}} ({{tier}})",
        "node {{node}}, GPU {{gpu}}, rank {{rank}} of {{run}}",
        "orange",
    )


XIDS = _events(
    "XIDs",
    "max by (node, gpu, xid)"
    f' (increase(lockstep_gpu_xid_errors_total{{node=~"$node"}}[{RATE}])) > 0',
    "XID {{xid}}",
    "GPU {{gpu}} on {{node}}",
    "red",
)
STARTS = _events(
    "Starts and restarts",
    'max by (run, attempt) (lockstep_rank_info{run=~"$run"})\nunless on (run, attempt)\n'
    'max by (run, attempt) (lockstep_rank_info{run=~"$run"} offset 1m)',
    "Attempt {{attempt}} starts",
    "{{run}}",
    "blue",
)
CHECKPOINTS = _events(
    "Checkpoints",
    "sum by (run) (rate(lockstep_train_phase_seconds_total"
    f'{{run=~"$run",phase="checkpoint"}}[{RATE}])) > 0',
    "Checkpoint",
    "{{run}}",
    "purple",
)
BOOTS = _events(
    "Boots",
    f'max by (node) (changes(lockstep_boot_time_seconds{{node=~"$node"}}[{RATE}])) > 0',
    "{{node}} booted",
    "",
    "blue",
)

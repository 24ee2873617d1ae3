"""The pages of docs/reference that are made from the contract, the settings and the commands.

`python -m tests.docs` writes them; test_reference compares.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from lockstep.analyzer.rules.alert_rules.groups import GROUPS
from lockstep.analyzer.rules.alert_rules.shape import BY_TIER, Alert
from lockstep.app import build
from lockstep.bench.results import COLUMNS, METRIC_PREFIX
from lockstep.collector.config import SETTINGS, Address, Config
from lockstep.collector.contract import archive
from lockstep.collector.contract.archive import Column
from lockstep.collector.contract.metric_rows.ranges import OF_UNITS, Range, of_unit
from lockstep.collector.contract.metrics import EXPORTERS, Metric
from lockstep.collector.flags import FLAGS
from tests.docs import api, faults, kernel_log, verdict
from tests.docs.tables import code, table

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
MADE = "<!-- Made by `python -m tests.docs`: do not edit. -->"

EXPORTER_WORDS = {
    "collector": (
        "The collector's page",
        (
            "One page for each node, on 127.0.0.1:9410. Units are base units. A metric whose name"
            " ends in `_total` is a counter, any other a gauge unless its text says so. Labels"
            " stand in parentheses. A value that was not read is absent, never -1 and never stale."
            " `# HELP` on the page also has the numbers of the fields of NVML (F) and DCGM (D)."
        ),
    ),
    "analyzer": ("The page of watch", "`lockstep watch` serves it on 127.0.0.1:9411."),
    "remediator": ("The page of nodes", "`lockstep nodes` serves it on 127.0.0.1:9413."),
    "reference runs": (
        "Reference runs",
        (
            "Names that the alerts expect of regular reference runs; no program of this version"
            " exports them."
        ),
    ),
}
SUBJECTS = {
    "monitor": "The collector itself and its node",
    "host": "Host",
    "network": "Network",
    "gpu": "GPUs",
    "events": "Events of GPUs, switches and the kernel, and who uses a GPU",
    "nccl": "NCCL and PyTorch's flight recorder",
    "training": "Training",
    "analyzer": "Runs, nodes, findings, alerts and post-mortems",
}
USUAL_LABELS = {"gpu": ("gpu", "uuid"), "training": ("run", "rank")}
"""By subject, labels of most of its metrics, which are said once."""

FILES: dict[str, Sequence[Column]] = {
    archive.RANKS_FILE: archive.RANKS,
    archive.SAMPLES_FILE: archive.SAMPLES,
    archive.STEPS_FILE: archive.STEPS,
    archive.OPS_FILE: archive.OPS,
}
OTHER_FILES = {
    archive.RUN_FILE: "id, spec, layout, versions, seed, clock errors, what was simulated",
    archive.CLUSTER_FILE: "of a run on a cluster: where it ran, and when each pod began",
    archive.TRUTH_FILE: "what was injected, intended and measured; the analyzer never opens it",
    archive.RESULTS_FILE: "evaluations, goal, throughput, sweep and probe, where a run has them",
    archive.VERDICT_FILE: "the verdict ([its keys](verdict.md))",
    f"{archive.REPORT_STEM}.{{html,md,json}}": "the report",
    archive.POSTED_FILE: "samples that programs added by `lockstep api`: a list a line of metric,"
    " node, rank, unix seconds and value",
    archive.TRACE_FILE: "some steps around the onset, for ui.perfetto.dev",
    archive.FINDING_FILE: "by `lockstep watch`: what was found, when, and which alerts reported it",
    archive.OPENED_FILE: "by `lockstep watch`: the verdict by which the finding opened",
}


def metrics() -> str:
    """Every metric that some page of ours has."""
    parts = ["# Metrics", MADE]
    for exporter, (title, words) in EXPORTER_WORDS.items():
        parts += [f"## {title}", words]
        for subject, rows in EXPORTERS[exporter].items():
            usual = USUAL_LABELS.get(subject, ())
            if subject in SUBJECTS:
                parts.append(f"### {SUBJECTS[subject]}")
            if usual:
                parts.append(
                    f"Labels are {', '.join(map(code, usual))} and those in parentheses;"
                    " `-` stands for none at all."
                )
            parts.append(_metric_list(rows, usual))
    return _page([*parts, *_ranges()])


def _ranges() -> list[str]:
    """What values can be, by unit."""
    units: dict[Range, list[str]] = {}
    for end, within in OF_UNITS:
        units.setdefault(within, []).append(code(f"…{end}"))
    units.setdefault(of_unit(""), []).append("all others")
    head = ("range", "metrics")
    return [
        "## What values can be",
        (
            "A value outside its range is not exported. It is counted in"
            ' `lockstep_source_errors_total{reason="implausible"}`, whichever source gave it;'
            " `lockstep doctor` names it. The range follows from the end of the name:"
        ),
        table(head, [_range(names, within) for within, names in units.items()]),
        (
            "Flags are 0 or 1. Some metrics have a range of their own, as states, margins, PCIe"
            " links and ratios to peers: `within` in `collector/contract/metric_rows/`."
        ),
    ]


def _range(names: Sequence[str], within: Range) -> tuple[str, str]:
    return f"{within.low:g} to {within.high:g}", ", ".join(names)


FIELDS = re.compile(
    r" \((?:(?:NVML|DCGM|GPM|NVLink|nvml\w++|to|from|on|[FD]?\d++(?:-\d++)?|[,;]) ?)+\)"
)
"""Numbers of fields of NVML and DCGM, which `# HELP` on the page has."""


def _metric_list(rows: Iterable[Metric], usual: tuple[str, ...]) -> str:
    return "\n".join(
        f"- {code(row.name)}{_labels(row, usual)}: {_kind(row)}{FIELDS.sub('', row.help)}"
        for row in rows
    )


def _labels(row: Metric, usual: tuple[str, ...]) -> str:
    count = len(usual) if tuple(row.labels[: len(usual)]) == usual else 0
    own = row.labels[count:] or (() if count == len(usual) else ("-",))
    return f" ({', '.join(own)})" if own else ""


def _kind(row: Metric) -> str:
    usual = "counter" if row.name.endswith("_total") else "gauge"
    return "" if row.kind == usual else f"{row.kind.capitalize()}. "


DEFAULT = re.compile(r" \([^();]+\)$")
"""The default, at the end of a flag's help."""


def settings() -> str:
    """Every setting of the collector."""
    defaults = {field.name: getattr(Config(), field.name) for field in fields(Config)}
    helps = {flag.name: flag for flag in FLAGS}
    rows = []
    for name, one in SETTINGS.items():
        flag = helps[name]
        usual = f"--{one.key.replace('_', '-')}"
        others = [flag.option] if flag.option != usual else []
        others += reversed(one.also)
        rows.append((
            code(f"[{one.section}] {one.key}"), _default(defaults[name]),
            ", ".join(map(code, others)), DEFAULT.sub("", flag.help),
        ))  # fmt: skip
    others_flags = [(code(flag.option), flag.help) for flag in FLAGS if flag.name not in SETTINGS]
    return _page([
        "# Settings of the collector", MADE,
        ("A setting is a key of a table in the file (`--config FILE`, TOML), a variable"
         " `LOCKSTEP_<TABLE>_<KEY>` in the environment, and a flag `--key` with dashes. Flags win"
         " over the environment, and the environment over the file. The third column names a flag"
         " that is called differently, and the libraries' own variables, which are read where the"
         " first one is not set. A wrong key or value ends the start with one sentence and exit"
         " code 64."),
        table(("setting", "default", "also", "what"), rows),
        "## Flags that are no settings",
        table(("flag", "what"), others_flags),
    ])  # fmt: skip


def _default(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not isinstance(value, Address):
        return ", ".join(code(str(each)) for each in value)
    return f"{value:g} s" if isinstance(value, float) else code(str(value))


def command_line() -> str:
    """Every command with its arguments, options, defaults and example, as `--help` has them."""
    app = typer.main.get_command(build())
    commands: dict[str, Any] = app.commands  # type: ignore[attr-defined]
    parts = [
        "# Command line",
        MADE,
        (
            "Data goes to stdout, progress to stderr. `lockstep --debug COMMAND` shows the"
            " traceback of a bug. `lockstep COMMAND --help` prints what this page has."
            " `lockstep --install-completion` makes the shell complete it."
        ),
        "## Exit codes",
        table(("code", "meaning"), EXIT_CODES),
        (
            "`analyze`, `cluster`, `bench compare`, and `watch` and `nodes` with --once answer by 0"
            " to 3; `doctor` by 0 and 1. `run`, `demo`, `report` and `score` exit 0 when they did"
            " their work, injected faults included. A traceback is a bug."
        ),
        "## Faults",
        faults.text(),
    ]
    shared = _shared(commands)
    parts += [
        "## Options of several commands",
        "A command that has one of these names it behind `also`.",
        "\n".join(shared),
    ]
    for name, command in commands.items():
        parts += [f"## lockstep {name}", _help(command.help or "")]
        parameters = [each for each in command.params if each.name != "help"]
        parts.append(OF_COLLECT if name == "collect" else _parameters(parameters, shared))
        for second, inner in getattr(command, "commands", {}).items():
            parts += [f"### lockstep {name} {second}", _help(inner.help or "")]
            parameters = [each for each in inner.params if each.name != "help"]
            parts.append(_parameters(parameters, shared))
    return _page([part for part in parts if part])


OF_COLLECT = "Every setting is a flag, and a few flags are no settings: [settings](settings.md)."
SHARED = 3
"""Options of so many commands are described once."""
EXIT_CODES = (
    ("0", "healthy, or done"),
    ("1", "a warning that names no place: all ranks slower alike, or hardware that deviates"),
    ("2", "a culprit was named, to page or to record"),
    ("3", "unknown, or too little data"),
    ("64", "usage: a flag, an argument or a setting is wrong"),
    ("65", "a file is not what it should be"),
    ("69", "a server does not answer, or a program is missing"),
    ("70", ("internal; also: a verdict that differs from what `demo` injected, a rank that failed"
     " by itself")),
    ("130", "interrupted"),
)  # fmt: skip


def _help(text: str) -> str:
    """Paragraphs as they are; the example in a block of its own."""
    text = text.replace("\b", "").strip()
    body, _, example = text.partition("Example: ")
    paragraphs = re.split(r"\n\s*\n", body.strip())
    shown = "\n\n".join(_prose(" ".join(each.split())) for each in paragraphs)
    return f"{shown}\n\n```sh\n{example.strip()}\n```" if example else shown


def _prose(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")


def _shared(commands: dict[str, Any]) -> list[str]:
    """The lines of options that three commands or more have."""
    counted = Counter(
        _parameter(each)
        for name, command in commands.items()
        if name != "collect"
        for one in (command, *getattr(command, "commands", {}).values())
        for each in one.params
        if each.param_type_name != "argument" and each.name != "help"
    )
    return [line for line, count in counted.items() if count >= SHARED]


def _parameters(parameters: Sequence[Any], shared: Sequence[str]) -> str:
    """A list for each group of the help, those without a group first.

    Of options of several commands only the names, at the end.
    """
    also = [
        code(each.opts[0])
        for each in parameters
        if not getattr(each, "hidden", False) and _parameter(each) in shared
    ]
    groups: dict[str, list[str]] = {"": []}
    for each in parameters:
        if not getattr(each, "hidden", False) and _parameter(each) not in shared:
            group = getattr(each, "rich_help_panel", None) or ""
            groups.setdefault(group, []).append(_parameter(each))
    if also:
        groups[""].append(f"- also {', '.join(also)}")
    return "\n\n".join(
        (f"**{group}**\n\n" if group else "") + "\n".join(rows)
        for group, rows in groups.items()
        if rows
    )


def _parameter(one: Any) -> str:
    is_argument = one.param_type_name == "argument"
    names = [one.metavar or one.name.upper()] if is_argument else [*one.opts, *one.secondary_opts]
    if not is_argument and one.metavar:
        names[-1] += f" {one.metavar}"
    default = "required" if one.required else _shown_default(
        one.opts[0] if one.default is True else one.default)  # fmt: skip
    shown = ", ".join(f"`{name}`" for name in names) + (f" ({default})" if default else "")
    return f"- {shown}: {_prose(' '.join((one.help or '').split()))}"


def _shown_default(value: Any) -> str:
    if value is None or isinstance(value, bool) or value == "" or value == () or callable(value):
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(f"`{each}`" for each in value)
    return f"`{value}`"


def archives() -> str:
    """The files of an archive and the columns of its tables."""
    rows = [(code(name), what) for name, what in OTHER_FILES.items()]
    rows += [(code(name), f"one row a {row}; columns below") for name, row in ROWS.items()]
    parts = [
        "# The archive of a run", MADE,
        ("An archive is one folder. While a run lasts, each `*.parquet` is a folder of closed"
         f" part files, one every {archive.PART_SECONDS:g} s and writer (a temporary name, then a"
         " rename), so that a killed run leaves a readable archive. Readers take a file or a"
         " folder. Times are unix seconds unless the name says nanoseconds."),
        table(("file", "holds"), rows),
    ]  # fmt: skip
    for name, columns in FILES.items():
        parts += [
            f"## {name}",
            table(
                ("column", "type", "unit", "what"),
                _columns(columns),
            ),
        ]
    return _page(parts)


def _columns(columns: Iterable[Any]) -> list[tuple[str, ...]]:
    """Rows of a table of columns; those of the phases share one."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        phase = f"phase {column.name.removesuffix('_seconds')}"
        what = column.help.replace(phase, "the phase of this name")
        groups.setdefault((column.dtype, column.unit, what), []).append(code(column.name))
    return [(", ".join(names), *cells) for cells, names in groups.items()]


ROWS = {
    archive.RANKS_FILE: "rank",
    archive.SAMPLES_FILE: "scraped sample",
    archive.STEPS_FILE: "rank and step",
    archive.OPS_FILE: "rank and operation",
}


def alerts() -> str:
    """Every alert with its runbook."""
    parts, count = [], 0
    for group in GROUPS:
        rows: dict[str, list[str]] = {}
        for rule in group.rules:
            if isinstance(rule, Alert):
                count += 1
                rows.setdefault(_severity(rule), []).append(_alert(rule))
        if rows:
            listed = [f"- {severity}: {', '.join(names)}" for severity, names in rows.items()]
            parts += [f"## {group.name}", "\n".join(listed)]
    return _page([
        "# Alerts", MADE,
        (f"{count} alerts, which `lockstep rules --out DIR` writes for Prometheus and as"
         " PrometheusRule, with severity and waiting time. Each name leads to its runbook: what it"
         " means, how to confirm it, what to do, and where its threshold comes from. An alert by"
         " tier is critical for `page` and a warning for `record`."
         " How to set them up: [alerts](../sre/alerts.md)."),
        *parts,
    ])  # fmt: skip


def _severity(rule: Alert) -> str:
    severity = "by tier" if rule.severity == BY_TIER else str(rule.severity)
    return f"{severity}, {rule.wait or 'at once'}"


def _alert(rule: Alert) -> str:
    return f"[{rule.full_name}](../../deploy/runbooks/{rule.full_name}.md)"


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def results() -> str:
    """The columns of `lockstep bench`'s table of results."""
    return _page([
        "# The table of results", MADE,
        (f"One row a cell and repeat. What a workload measures follows as `{METRIC_PREFIX}NAME`, by"
        " name. Null is what is unknown. [Benchmarks](../ml/bench.md)"),
        table(("column", "type", "unit", "what"), _columns(COLUMNS)),
    ])  # fmt: skip


PAGES: dict[str, Callable[[], str]] = {
    "results.md": results,
    "metrics.md": metrics,
    "settings.md": settings,
    "command-line.md": command_line,
    "archive.md": archives,
    "api.md": lambda: api.text(MADE),
    "verdict.md": verdict.text,
    "alerts.md": alerts,
    "xids.md": lambda: _page(kernel_log.xids(MADE)),
    "kernel-events.md": lambda: _page(kernel_log.kernel_events(MADE)),
}


def main() -> None:
    """Writes every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), "utf-8")

"""The README says what the contract says, both ways; CONTRIBUTING names every dependency."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from collector.contract import archive, words
from collector.contract.archive import Column
from collector.contract.metrics import EXPORTED, METRICS, Metric
from lockstep.commands import COMMANDS
from workloads.faults.plan import BUILT

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FILES: dict[str, Sequence[Column]] = {
    archive.RANKS_FILE: archive.RANKS,
    archive.SAMPLES_FILE: archive.SAMPLES,
    archive.STEPS_FILE: archive.STEPS,
    archive.OPS_FILE: archive.OPS,
}
OTHER_FILES = {
    archive.RUN_FILE: "id, spec, layout, versions, seed, clock errors, what was simulated",
    archive.TRUTH_FILE: "what was injected, intended and measured; the analyzer never opens it",
    archive.RESULTS_FILE: "evaluations, goal, throughput, sweep and probe, where a run has them",
    archive.VERDICT_FILE: "the verdict",
    f"{archive.REPORT_STEM}.{{html,md,json}}": "the report",
    archive.TRACE_FILE: "some steps around the onset, for ui.perfetto.dev",
    archive.FINDING_FILE: "of `lockstep watch`: what was found, when, and which alerts told of it",
}


def metric_table(metrics: Iterable[Metric]) -> str:
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in metrics
    ]
    return "\n".join(["| metric | type | labels | what |", "|---|---|---|---|", *rows])


def archive_table() -> str:
    rows = [f"| `{name}` | {what} |" for name, what in OTHER_FILES.items()]
    rows += [
        f"| `{name}` | {', '.join(f'`{column.name}`' for column in columns)} |"
        for name, columns in FILES.items()
    ]
    return "\n".join(["| file | holds |", "|---|---|", *rows])


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("metrics", metric_table(METRICS.values())),
        ("watch-metrics", metric_table(EXPORTED["analyzer"].values())),
        ("archive", archive_table()),
    ],
)
def test_a_table_of_the_readme_is_the_contract(
    name: str, table: str, request: pytest.FixtureRequest
) -> None:
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    before, _, rest = README.read_text("utf-8").partition(begin)
    found, _, after = rest.partition(end)
    if request.config.getoption("--renew-goldens"):
        README.write_text(f"{before}{begin}{table}\n{end}{after}", "utf-8")
        return

    assert f"{table}\n" == found


def test_the_readme_has_every_command_and_exit_code() -> None:
    text = README.read_text("utf-8")

    assert {command.__name__ for command in COMMANDS} == set(
        re.findall(r"^\| `lockstep (\w+)", text, re.MULTILINE)
    )
    for code in (64, 65, 69, 70, 130):
        assert str(code) in text


def test_the_readme_has_every_fault_that_can_be_injected_with_its_cause() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|[^|]+\| `([\w-]+)` \|$", README.read_text("utf-8"), re.M)

    assert {kind.value: words.FAULT_CAUSES[kind].value for kind in BUILT} == dict(rows)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"]]
    for group in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        wanted += [each for requirements in group.values() for each in requirements]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in wanted}
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

    assert names == set(re.findall(r"^\| ([\w-]+) \| [\w, ]+ \|", text, re.MULTILINE)) - {
        "distribution"
    }

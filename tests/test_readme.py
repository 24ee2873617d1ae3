"""Every dependency has its reason in docs/contributing, and is installed where it is wanted."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_installs_a_part_of_what_the_others_do() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    others = {line for name, lines in extras.items() if name != "demo" for line in lines}

    assert set() == set(extras["demo"]) - others


def test_a_run_is_recorded_and_reported_with_what_the_demo_installs() -> None:
    absent = ("requests", "prometheus_api_client", "grpc", "yaml", "bcrypt", "httpx", "fastapi")
    imported = (
        "lockstep.collector.__main__", "lockstep.runs.observe", "lockstep.diagnose.diagnosis",
        "lockstep.diagnose.report_inputs",
        "lockstep.analyzer.report.document", "lockstep.analyzer.report.page",
    )  # fmt: skip
    program = f"import sys; sys.modules |= dict.fromkeys({absent}); import {', '.join(imported)}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"]]
    for group in (project["project"]["optional-dependencies"], project["dependency-groups"]):
        wanted += [each for requirements in group.values() for each in requirements]
    lines = (ROOT / "docs" / "requirements.txt").read_text("utf-8").splitlines()
    wanted += [line for line in lines if not line.startswith("#")]
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in wanted}
    text = (ROOT / "docs" / "contributing" / "dependencies.md").read_text("utf-8")

    assert names == set(re.findall(r"^\| ([\w-]+) \| [\w, ]+ \|", text, re.MULTILINE)) - {
        "distribution"
    }


def test_the_newest_release_is_the_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    chart = (ROOT / "deploy" / "chart" / "Chart.yaml").read_text("utf-8")
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changelog, re.MULTILINE)

    charted = re.findall(r"^\w*[vV]ersion: (\d\S+)$", chart, re.MULTILINE)

    assert newest is not None
    assert [newest[1]] * 3 == [project["version"], *charted]

"""The files of the standalone set-up: valid, bounded in what they may do, and one with the rest."""

import json
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from lockstep.cli.dashboard import STOP_SECONDS
from lockstep.collector.config import DEFAULT_LISTEN
from lockstep.collector.flags import FLAGS
from tests.deploy.standalone import FILES, SERVICES, Standalone, changed, command, documented

LOOPBACK = re.compile(r"127\.0\.0\.1:\d+")
WORST_EXPOSURE = 3.0
"""What systemd-analyze calls OK ends at 4.9; a service with nothing set has 9.6."""


def needs(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def run(*words: object) -> str:
    command = [str(each) for each in words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def units(tmp_path_factory) -> list[str]:
    """The services with programs that exist here."""
    folder = tmp_path_factory.mktemp("units")
    program = {"/opt/lockstep/bin/lockstep": needs("true")}
    for path in SERVICES:
        text = changed(path.read_text(), program)
        (folder / path.name).write_text(re.sub(r"/usr/bin/prometheus\S*", needs("true"), text))
    return sorted(map(str, folder.glob("*.service")))


def test_systemd_understands_every_line_of_the_services(units) -> None:
    assert "" == run(needs("systemd-analyze"), "verify", "--man=no", *units)


def test_no_service_may_more_than_it_needs(units) -> None:
    answer = run(needs("systemd-analyze"), "security", "--offline=yes", "--no-pager",
                 f"--threshold={int(10 * WORST_EXPOSURE)}", *units)  # fmt: skip
    ratings = re.findall(r"exposure level for (\S+).service: ([\d.]+)", answer)

    assert [path.stem for path in SERVICES] == [name for name, _ in ratings]
    assert max(float(rating) for _, rating in ratings) <= WORST_EXPOSURE


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.stem)
def test_every_service_is_a_user_of_its_own_that_gains_no_rights(path) -> None:
    lines = path.read_text().splitlines()

    assert {"DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes"} <= set(lines)
    [own] = (line for line in lines if line.startswith("StateDirectory="))
    if path.stem == "lockstep-dashboard":
        assert "ReadOnlyPaths=%S/lockstep-watch" in lines  # it reads what watch found
        assert "StateDirectory=lockstep-watch" == own
    else:
        assert f"StateDirectory={path.stem}" == own


def test_every_service_listens_on_the_loopback_and_finds_the_others_there() -> None:
    told = {path.name: set(LOOPBACK.findall(path.read_text())) for path in SERVICES}
    told |= {
        name: set(LOOPBACK.findall((FILES / name).read_text()))
        for name in ("prometheus.yml", "alertmanager.yml", "targets.json")
    }
    prometheus, alertmanager, watch = (f"127.0.0.1:{port}" for port in (9090, 9093, 9411))

    assert {
        "lockstep-collector.service": set(),  # its default is the loopback
        "lockstep-prometheus.service": {prometheus},
        "lockstep-alertmanager.service": {alertmanager},
        "lockstep-dashboard.service": {prometheus, "127.0.0.1:8501"},
        "lockstep-watch.service": {prometheus, alertmanager, watch},
        "prometheus.yml": {alertmanager, watch},
        "alertmanager.yml": {watch},
        "targets.json": {str(DEFAULT_LISTEN)},
    } == told
    assert "127.0.0.1" == DEFAULT_LISTEN.host


def test_the_files_that_run_in_tests_differ_from_these_in_documented_values_only(tmp_path) -> None:
    there = Standalone(tmp_path, seconds=15)
    back = {value: default for default, value in there.values.items()}
    for name in ("prometheus.yml", "alertmanager.yml"):
        text = (tmp_path / "etc" / name).read_text()
        for value, default in back.items():
            text = text.replace(value, default)
        assert (FILES / name).read_text() == text

    assert documented() == list(there.values)
    with pytest.raises(AssertionError):
        changed("", {"group_wait: 1s": "group_wait: 0s"})


def test_the_collector_has_the_options_of_its_service(tmp_path) -> None:
    words = command("collector", Standalone(tmp_path).values)

    assert {"--state-dir"} == {each for each in words if each.startswith("--")}
    assert "--state-dir" in {flag.option for flag in FLAGS}


def test_the_dashboard_has_the_options_of_its_service(tmp_path) -> None:
    words = command("dashboard", Standalone(tmp_path).values)
    told = run(sys.executable, "-m", "lockstep", "dashboard", "--help")

    assert [] == [each for each in words if each.startswith("--") and each not in told]


def test_the_dashboard_may_end_its_server_in_its_own_time() -> None:
    (path,) = [each for each in SERVICES if each.stem == "lockstep-dashboard"]
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)s$", path.read_text(), re.MULTILINE)

    assert int(seconds) > STOP_SECONDS


def test_a_collector_that_another_machine_scrapes_is_told_where_to_listen() -> None:
    readme = (FILES / "README.md").read_text()
    [listen] = re.findall(r"`LOCKSTEP_COLLECTOR_LISTEN=(\S+)`", readme)

    assert "0.0.0.0:9410" == listen
    assert readme.index("LOCKSTEP_COLLECTOR_LISTEN") < readme.index('"gpu-17:9410"')
    assert DEFAULT_LISTEN.port == int(listen.partition(":")[2])


@pytest.mark.prometheus
def test_prometheus_and_alertmanager_understand_their_files(tmp_path) -> None:
    there = Standalone(tmp_path)
    there.targets({"node-0": "127.0.0.1:1"})

    run(needs("promtool"), "check", "config", tmp_path / "etc" / "prometheus.yml")
    run(needs("amtool"), "check-config", tmp_path / "etc" / "alertmanager.yml")


def test_the_example_of_targets_is_one_that_prometheus_reads() -> None:
    [entry] = json.loads((FILES / "targets.json").read_text())

    assert {"targets", "labels"} == entry.keys()
    assert [str(DEFAULT_LISTEN)] == entry["targets"]


def test_nobody_is_told_before_an_example_is_chosen() -> None:
    receivers = yaml.safe_load((FILES / "alertmanager.yml").read_text())["receivers"]

    assert ["nobody", "lockstep"] == [each["name"] for each in receivers]

"""Every container starts a command that there is, with options that it has."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest
import typer

from lockstep.app import build
from tests.deploy.chart.chart import Manifest, objects, part, pods, values_files

MATRIX = values_files()
OWN_ENTRY = {"cleaner": "python", "login": "install", "tuning": "/bin/sh"}
"""Containers that start something else than `lockstep`."""


def containers(values: Mapping[str, Any]) -> Iterator[tuple[str, Manifest]]:
    """Every container, with the part that it is of."""
    for each, template in pods(objects(values)):
        for kind in ("initContainers", "containers"):
            for container in template["spec"].get(kind, ()):
                yield part(each), container


def every_container() -> list[tuple[str, Manifest]]:
    return [one for values in MATRIX.values() for one in containers(values)]


def options(command: str) -> dict[str, bool]:
    """Option -> whether it takes a value."""
    found = typer.main.get_command(build()).commands[command]  # type: ignore[attr-defined]
    return {word: not getattr(one, "is_flag", False) for one in found.params for word in one.opts}


@pytest.mark.parametrize("name", MATRIX)
def test_containers_start_what_there_is_with_options_that_it_has(name: str):
    for _, container in containers(MATRIX[name]):
        if container["name"] in OWN_ENTRY:
            assert OWN_ENTRY[container["name"]] == container["command"][0]
            continue
        command, *words = container["args"]
        known = options(command)
        assert "command" not in container
        for word in words:
            option, equals, _ = word.partition("=")
            assert option in known, f"{command} {option}"
            assert bool(equals) == known[option], f"{command} {option}"


def test_each_page_is_where_the_program_serves_it():
    found = {
        name: (container["ports"][0]["containerPort"],
               [word for word in container["args"] if word.startswith("--listen=")])
        for name, container in every_container()
        if "ports" in container
    }  # fmt: skip

    for name, (port, listens) in found.items():
        assert [f"--listen=0.0.0.0:{port}"] == listens, name
    assert {"collector": 9410, "watch": 9411, "dashboard": 8501, "nodes": 9413} == {
        name: port for name, (port, _) in found.items()
    }


def test_probes_ask_for_paths_that_are_served():
    sources = {
        "collector": import_module("lockstep.collector.exporter.server"),
        "watch": import_module("lockstep.watch.program"),
        "nodes": import_module("lockstep.watch.kubernetes.program"),
        "dashboard": import_module("lockstep.cli.dashboard"),
    }
    for name, container in every_container():
        for probe in (value for key, value in container.items() if key.endswith("Probe")):
            with open(sources[name].__file__, encoding="utf-8") as file:
                assert f'"{probe["httpGet"]["path"]}"' in file.read(), name


def test_variables_are_ones_that_the_programs_read():
    known = re.compile(
        r"LOCKSTEP_((RUNBOOKS|DASHBOARD|GRAFANA)_URL|COLLECTOR_NODE_NAME|API_TOKEN_FILE)"
    )
    for _, container in every_container():
        for variable in container.get("env", ()):
            if variable["name"].startswith("LOCKSTEP_"):
                assert known.fullmatch(variable["name"])

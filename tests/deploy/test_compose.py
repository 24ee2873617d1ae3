"""The compose file: valid by its published schema, and the standalone set-up in containers."""

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from lockstep.app import build
from tests.deploy.standalone import FILES, command

PATH = FILES / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(PATH.read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OWN = ("collector", "watch", "dashboard")
# Published at https://github.com/compose-spec/compose-spec; this package carries it.
SCHEMA = json.loads(
    (files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text()
)


def test_the_file_is_valid_by_the_schema_of_compose():
    jsonschema.validate(COMPOSE, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**COMPOSE, "services": {"a": {"imagee": "b"}}}, SCHEMA)


@pytest.mark.parametrize("name", OWN)
def test_a_service_runs_what_the_service_of_systemd_runs(name: str):
    asked, *words = SERVICES[name]["command"]
    program, known, *rest = command(name, {})
    takes = typer.main.get_command(build()).commands[asked]  # type: ignore[attr-defined]
    options = {word for one in takes.params for word in one.opts}

    assert known == asked
    assert program.endswith("lockstep")
    assert {word.partition("=")[0] for word in words} == set(rest[::2])
    assert {word.partition("=")[0] for word in words} <= options
    # The same addresses and intervals; folders are the container's own.
    values = dict(word.split("=", 1) for word in words)
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        assert "%S" in value or values[option] == value


@pytest.mark.parametrize("name", ["prometheus", "alertmanager"])
def test_a_server_gets_the_words_that_systemd_gives_it(name: str):
    told = dict(word.split("=", 1) for word in SERVICES[name]["command"])
    known = dict(word.split("=", 1) for word in command(name, {})[1:])

    assert told.keys() == known.keys()
    # Where they keep what they keep is the container's own.
    assert {key for key in told if told[key] != known[key]} == {
        key for key in told if key.startswith("--storage") and key.endswith("path")
    }


def test_what_is_mounted_from_the_checkout_is_there_and_read_only():
    mounts = [each.split(":") for one in SERVICES.values() for each in one.get("volumes", ())]

    for source, target, *mode in mounts:
        if source.startswith("."):
            assert (FILES / source).exists(), source
            assert ["ro"] == mode
            assert target.startswith("/etc/lockstep/")
        elif not source.startswith("/"):
            assert source in COMPOSE["volumes"]
    assert {"/dev/shm"} == {source for source, *_ in mounts if source.startswith("/")}


def test_files_name_paths_that_are_mounted():
    text = "".join((FILES / name).read_text() for name in ("prometheus.yml", "alertmanager.yml"))
    named = re.findall(r"(?<![\w#.])/(?:etc/lockstep|run/credentials)[\w./*-]*", text)
    mounted = [each.split(":")[1] for one in SERVICES.values() for each in one.get("volumes", ())]

    assert named
    for path in named:
        folder = path if Path(path).suffix in ("", ".yml") else str(Path(path).parent)
        assert any(Path(one).is_relative_to(folder) or Path(folder).is_relative_to(one)
                   for one in mounted), path  # fmt: skip


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_no_more_than_it_needs(name: str):
    told = SERVICES[name]

    assert told["read_only"] is True
    assert ["ALL"] == told["cap_drop"]
    assert ["no-new-privileges:true"] == told["security_opt"]
    assert not {"privileged", "ports", "devices"} & told.keys()
    assert ("none" if name == "owners" else "host") == told["network_mode"]
    if name == "owners":  # root for one chown, and gone
        assert ("no", ["CHOWN"]) == (told["restart"], told["cap_add"])
    else:
        assert "cap_add" not in told
        assert "65532:65532" == told.get("user", "65532:65532")  # our images are 65532's


def test_everything_listens_on_the_loopback():
    found = re.findall(r"(?:listen|listen-address)=(\S*)", PATH.read_text())

    assert {"127.0.0.1"} == {address.rpartition(":")[0] for address in found if address}

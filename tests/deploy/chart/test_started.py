"""Every rendered command line passes the own checks of the real command."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from lockstep.app import main
from tests.deploy.chart.chart import objects, pods, values_files

MATRIX = values_files()
PROGRAMS = {
    "collect": "lockstep.collector.__main__._serve",
    "watch": "lockstep.watch.program._server",
    "dashboard": "lockstep.cli.dashboard.free_address",
    "nodes": "lockstep.watch.kubernetes.program._server",
}
"""Command -> what it calls once all that it was told is right."""
FOLDERS = ("/var/lib/lockstep", "/host", "/etc/lockstep", "/run/lockstep")
"""Of the pod."""
KUBECONFIG = """
{clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {}}],
contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}
"""
LOGIN = """
[auth]
redirect_uri = "https://pages.example/oauth2callback"
cookie_secret = "c"
client_id = "i"
client_secret = "s"
server_metadata_url = "https://login.example/.well-known/openid-configuration"
"""


class AcceptedError(BaseException):
    """The command has checked everything."""


def started(name: str) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Arguments and variables of every container that runs `lockstep`."""
    for _, template in pods(objects(MATRIX[name])):
        for container in template["spec"]["containers"]:
            if "args" in container and "command" not in container:
                told = {
                    one["name"]: one.get("value", "10.0.0.1") for one in container.get("env", ())
                }
                yield container["args"], told


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders and files that a pod has, below another root."""
    for folder in ("var/lib/lockstep/findings", "run/lockstep", "host"):
        (tmp_path / folder).mkdir(parents=True)
    for token in ("webhook", "api"):
        (tmp_path / "etc/lockstep" / token).mkdir(parents=True)
        (tmp_path / "etc/lockstep" / token / "token").write_text("token")
    login = tmp_path / "run/lockstep/secrets.toml"
    login.write_text(LOGIN)
    login.chmod(0o600)
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    # The dashboard's image has Authlib.
    monkeypatch.setattr("lockstep.cli.dashboard.find_spec", lambda name: name)

    def accepted(*_: object) -> None:
        raise AcceptedError

    for checked in PROGRAMS.values():
        monkeypatch.setattr(checked, accepted)
    return tmp_path


def answer(words: list[str]) -> str:
    """What becomes of a command line."""
    try:
        return f"exit code {main(words)}"
    except AcceptedError:
        return "accepted"


@pytest.mark.parametrize("name", MATRIX)
def test_each_command_takes_what_the_chart_tells_it(
    name: str, pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, variables in started(name):
        words = [word.replace("$(HOST_IP)", variables.get("HOST_IP", "")) for word in arguments]
        for folder in FOLDERS:
            words = [word.replace(f"={folder}", f"={pod}{folder}") for word in words]
        if words[0] == "nodes":  # in place of the account of a pod
            words.append(f"--kubeconfig={pod}/kubeconfig")
        with monkeypatch.context() as environment:
            for variable, value in variables.items():
                rooted = f"{pod}{value}" if value.startswith(FOLDERS) else value
                environment.setenv(variable, rooted)
            assert "accepted" == answer(words), shlex.join(words)


def test_every_program_of_the_chart_is_tried():
    assert PROGRAMS.keys() == {words[0] for name in MATRIX for words, _ in started(name)}


def test_a_command_line_that_is_refused_is_noticed(pod: Path):
    assert "exit code 64" == answer(["nodes", "--mode=observe", "--dry-run"])

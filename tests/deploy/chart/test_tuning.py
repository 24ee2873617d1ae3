"""The script that sets sysctls of a node: what it did is undone, and nothing else is touched."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.chart.chart import CHART, render

SCRIPT = CHART / "files" / "tuning" / "tune.sh"


class Node:
    """A folder that stands for /proc/sys, and the script on it."""

    def __init__(self, folder: Path) -> None:
        self.sysctls, self.found = folder / "sys", folder / "found"
        self._wanted, self._log = folder / "wanted", folder / "log"
        self._running: list[subprocess.Popen[bytes]] = []
        for name, value in {"net.core.rmem_max": "212992", "vm.swappiness": "60",
                            "net.ipv4.tcp_rmem": "4096\t131072\t6291456"}.items():  # fmt: skip
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")

    def path(self, name: str) -> Path:
        return self.sysctls / name.replace(".", "/")

    def value(self, name: str) -> str:
        return self.path(name).read_text().strip()

    def start(self, **wanted: str) -> "subprocess.Popen[bytes]":
        """Runs it until all is set."""
        self._wanted.write_text("".join(f"{name}={value}\n" for name, value in wanted.items()))
        self._log.write_text("")
        with self._log.open("wb") as log:
            running = subprocess.Popen(
                ["/bin/sh", SCRIPT, self._wanted, self.sysctls, self.found], stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._running.append(running)
        for _ in range(1000):
            if self.said.endswith("ready\n"):
                return running
            time.sleep(0.01)
        raise AssertionError(self.said)

    @property
    def said(self) -> str:
        """What the one that was started last has said."""
        return self._log.read_text()

    def stop(self, running: "subprocess.Popen[bytes]") -> None:
        """As the kubelet ends it."""
        running.terminate()
        running.wait(10)

    def leaves_nothing_of(self, running: "subprocess.Popen[bytes]") -> bool:
        """Whether its group ends: what it killed is buried by whoever inherits it, in its time."""
        for _ in range(1000):
            try:
                os.killpg(running.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.01)
        return False

    def kill(self, running: "subprocess.Popen[bytes]") -> None:
        """With whatever it started, as a container is killed."""
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()

    def close(self) -> None:
        for running in self._running:
            if running.poll() is None:
                self.kill(running)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    there = Node(tmp_path)
    yield there
    there.close()


def test_sysctls_are_set_and_put_back_when_it_is_told_to_end(node: Node):
    running = node.start(**{"net.core.rmem_max": "16777216", "net.ipv4.tcp_rmem": "4096 87380 9"})
    during = node.value("net.core.rmem_max"), node.value("net.ipv4.tcp_rmem")
    node.stop(running)

    assert ("16777216", "4096 87380 9") == during
    assert "212992" == node.value("net.core.rmem_max")
    assert "4096 131072 6291456" == node.value("net.ipv4.tcp_rmem")
    assert [] == list(node.found.iterdir())
    assert node.leaves_nothing_of(running)


def test_what_somebody_else_wrote_meanwhile_stays(node: Node):
    running = node.start(**{"vm.swappiness": "1"})
    node.path("vm.swappiness").write_text("10\n")
    node.stop(running)

    assert "10" == node.value("vm.swappiness")
    assert node.said.endswith("vm.swappiness is 10, set by another writer; left unchanged\n")


def test_after_a_kill_the_next_one_puts_back_what_was_found_first(node: Node):
    node.kill(node.start(**{"vm.swappiness": "1"}))
    assert "1" == node.value("vm.swappiness")

    running = node.start(**{"vm.swappiness": "5"})
    assert "5" == node.value("vm.swappiness")
    node.stop(running)
    assert "60" == node.value("vm.swappiness")


def test_after_a_kill_what_is_no_longer_wanted_is_put_back_at_once(node: Node):
    node.kill(node.start(**{"vm.swappiness": "1"}))
    node.start(**{"net.core.rmem_max": "1"})

    assert "60" == node.value("vm.swappiness")


def test_a_value_that_is_there_already_is_not_ours(node: Node):
    running = node.start(**{"vm.swappiness": "60"})

    assert [] == list(node.found.iterdir())
    node.path("vm.swappiness").write_text("7\n")
    node.stop(running)
    assert "7" == node.value("vm.swappiness")


def test_a_sysctl_that_this_node_has_not_is_told_and_the_others_are_set(node: Node):
    node.start(**{"net.core.nothing": "1", "vm.swappiness": "1"})

    assert "net.core.nothing is no sysctl of this node that can be written" in node.said
    assert "1" == node.value("vm.swappiness")


def test_it_restarts_with_other_values_and_is_privileged_in_the_namespace_that_allows_it():
    def pods(value: str):
        values = {"nodeTuning": {"enabled": True, "sysctls": {"vm.swappiness": value}}}
        script, daemons = render(values)["tuning-daemonset.yaml"]
        assert f"vm.swappiness={value}\n" in script["data"]["wanted"] + "\n"
        assert SCRIPT.read_text() == script["data"]["tune.sh"]
        assert "lockstep-collector" == daemons["metadata"]["namespace"]
        return daemons["spec"]["template"]

    assert pods("1")["metadata"]["annotations"] != pods("2")["metadata"]["annotations"]
    assert pods("1")["spec"]["containers"][0]["securityContext"]["privileged"]


def test_tainted_nodes_are_tuned_too_unless_somebody_says_otherwise():
    def tolerations(**more: object):
        values = {"enabled": True, "sysctls": {"vm.swappiness": "1"}, **more}
        _, daemons = render({"nodeTuning": values})["tuning-daemonset.yaml"]
        return daemons["spec"]["template"]["spec"].get("tolerations")

    assert [{"operator": "Exists"}] == tolerations()
    assert [{"key": "gpu", "operator": "Exists"}] == (
        tolerations(tolerations=[{"key": "gpu", "operator": "Exists"}])
    )
    assert tolerations(tolerations=[]) is None


def test_nothing_is_tuned_unless_asked_for():
    assert "tuning-daemonset.yaml" not in render()

"""Every server of ours has a port of its own: all of them run on one machine without a word."""

import inspect
from importlib import import_module

from lockstep.collector.config import Config

COMMANDS = ("api", "dashboard", "nodes", "watch")


def test_no_two_servers_share_a_default_port() -> None:
    ports = [Config().listen.port]
    for name in COMMANDS:
        command = getattr(import_module(f"lockstep.commands.{name}"), name)
        listen = str(inspect.signature(command).parameters["listen"].default)
        ports.append(int(listen.rpartition(":")[2]))

    assert len(set(ports)) == len(ports) == 5

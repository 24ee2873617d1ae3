"""A port for the ranks of a program to meet at."""

import secrets
import socket

import pytest

BELOW_EPHEMERAL = range(20_000, 32_000)
"""No connection of another test is given one of these (ip_local_port_range begins at 32,768)."""


@pytest.fixture
def port() -> int:
    while True:
        # Not by `random`: pytest-randomly seeds it alike in every worker.
        chosen = secrets.choice(BELOW_EPHEMERAL)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", chosen))
            except OSError:
                continue
        return chosen

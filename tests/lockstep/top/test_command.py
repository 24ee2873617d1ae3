"""`lockstep top --once`: one screen of plain text."""

from collections.abc import Callable
from typing import Any

import pytest

from lockstep.commands import top
from tests.lockstep.top.looks import page
from tests.lockstep.top.test_pages import Nodes


def test_once_is_plain_text_of_two_looks(
    lockstep: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(top, "APART_SECONDS", 0.01)
    nodes = Nodes()
    nodes.texts = {"0": page(0, {0: 0.05, 1: 0.05}, world=2)}
    try:
        answer = lockstep("top", "--once", nodes.url(0))
    finally:
        nodes.close()
    assert answer.code == 0
    assert len(nodes.asked) == 2
    assert answer.out.startswith(f"lockstep top  http://{nodes.place}  ")
    assert "Nodes: 1 of 1 answer" in answer.out
    assert "\x1b" not in answer.out
    assert "who is late is unknown" in answer.out

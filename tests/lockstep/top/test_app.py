"""The screen in a terminal, driven by textual's pilot."""

import asyncio
import threading
from collections.abc import Callable

import pytest

pytest.importorskip("textual", reason="textual (the extra top) is not installed")

from lockstep.top.app import SHARE, Panel, Top
from lockstep.top.look import Look, LookError
from tests.lockstep.top.looks import look

LATE = (0.05, 0.05, 0.05, 0.075, 0.05, 0.05, 0.05, 0.05)


class Told:
    """Answers as it is set, and counts how often it is asked."""

    def __init__(self) -> None:
        self.answer: Look | Exception = look(LATE)
        self.asked = 0

    def __call__(self) -> Look:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def text(app: Top) -> list[str]:
    """What the terminal shows, by line."""
    return [
        "".join(part.text for part in strip).rstrip()
        for strip in app.screen._compositor.render_strips()
    ]


def shown(size: tuple[int, int], told: Callable[[], Look], act=None) -> tuple[list[str], Top]:
    """The lines of the screen once a look is there and something was done."""
    app = Top(told, "http://there", 3600.0)

    async def drive() -> list[str]:
        async with app.run_test(size=size) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if app._shown is not None or app._why or app.error is not None:
                    break
            if act is not None:
                await act(pilot)
            await pilot.pause()
            return text(app) if app.is_running else []

    return asyncio.run(drive()), app


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (132, 12)])
def test_who_is_late_is_on_the_first_lines_and_all_three_tables_are_there(size):
    lines, _ = shown(size, Told())
    whole = "\n".join(lines)
    assert "rank 3 on node-1 takes 1.50x" in "\n".join(lines[:3])
    for words in ("Nodes: 4 of 4 answer", "Ranks: 8, 1 late or out", "GPUs: 8", "q quit"):
        assert words in whole
    assert len(lines) == size[1]


def test_tables_stand_beside_each_other_where_it_is_wide():
    lines, _ = shown((160, 30), Told())
    assert any("Nodes:" in line and "Ranks:" in line for line in lines)
    lines, _ = shown((80, 24), Told())
    assert not any("Nodes:" in line and "Ranks:" in line for line in lines)


def test_another_size_shares_the_room_anew():
    async def resize(pilot) -> None:
        await pilot.resize_terminal(160, 40)
        await pilot.pause()
        await pilot.pause()

    lines, app = shown((80, 24), Told(), resize)
    assert any("Nodes:" in line and "Ranks:" in line for line in lines)
    for panel in app.query(Panel):
        assert panel.size.height > 1


@pytest.mark.parametrize("size", [(20, 5), (10, 3)])
def test_a_terminal_too_small_for_anything_is_no_crash(size):
    _, app = shown(size, Told())
    assert app.error is None


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130), ("ctrl+q", 0)])
def test_keys_leave_with_their_code(key: str, code: int):
    async def press(pilot) -> None:
        await pilot.press(key)

    _, app = shown((80, 24), Told(), press)
    assert app.return_value == code
    assert app.return_code == code


def test_a_source_that_stops_answering_is_told_over_what_was_there():
    told = Told()

    async def fail(pilot) -> None:
        told.answer = LookError("the collector at http://there does not answer: refused")
        await pilot.press("space")
        for _ in range(200):
            await pilot.pause(0.02)
            if pilot.app._why:
                return

    lines, app = shown((80, 24), told, fail)
    whole = " ".join("\n".join(lines).split())
    assert "? the collector at http://there does not answer: refused." in whole
    assert "Below is what it reported at 22:13:20 UTC." in whole
    assert "Ranks: 8" in whole
    assert app.has_class("stale")


def test_a_source_that_never_answered_shows_no_table_of_zeros():
    told = Told()
    told.answer = LookError("nobody there")
    lines, _ = shown((80, 24), told)
    whole = "\n".join(lines)
    assert "nobody there" in whole
    assert "0 of 0" not in whole


def test_a_bug_ends_it_and_is_given_to_the_command():
    told = Told()
    told.answer = ZeroDivisionError("bug")
    _, app = shown((80, 24), told)
    assert isinstance(app.error, ZeroDivisionError)
    assert app.return_code == 70


def test_a_bug_in_drawing_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(Panel, "show", lambda *_: 1 / 0)
    app = Top(Told(), "http://there", 3600.0)
    asyncio.run(asyncio.wait_for(app.run_async(headless=True, size=(80, 24)), 20))
    assert isinstance(app.error, ZeroDivisionError)
    assert app.return_code == 70
    assert "Traceback" not in capsys.readouterr().err


def test_a_hanging_source_keeps_nobody_from_leaving():
    forever = threading.Event()

    def hang() -> Look:
        forever.wait(60)
        raise LookError("late")

    app = Top(hang, "http://there", 5.0)

    async def drive() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("q")

    asyncio.run(asyncio.wait_for(drive(), 10))
    forever.set()
    assert app.return_code == 0


def test_a_dear_look_makes_looks_rarer():
    def dear() -> Look:
        return look(LATE)

    app = Top(dear, "http://there", 1.0)
    costs = iter([0.0, 0.5])
    pauses = []
    app.post_message = lambda message: pauses.append(message.pause) or True  # type: ignore[method-assign]
    app._now.wait = lambda _=None: setattr(app, "_ended", True)  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lockstep.top.app.time.process_time", lambda: next(costs))
        app._looking()
    assert pauses == [0.5 / SHARE]

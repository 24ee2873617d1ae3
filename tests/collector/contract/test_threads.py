"""No thread of ours ends by an exception: it is counted, health says so, and loops go on."""

import ast
import sys
import threading
from pathlib import Path

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import threads
from lockstep.collector.contract.threads import STEADY_SECONDS, Threads

ROOT = Path(__file__).parents[3]
PARTS = ("analyzer", "bench", "collector", "dashboard", "grafana", "lockstep", "watch")
ELSEWHERE = {
    "collector/contract/threads.py": "it makes them",
    "collector/sources/gpu/nvml/child.py": "a process of its own, which a failure ends: its parent"
    " counts that, and starts it anew",
    "collector/sources/gpu/nvml/xid_watch.py": "of the same process",
    "lockstep/terminal/interrupts.py": "a timer that sends one signal to this process",
}
PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(threads, "LAST_PAUSE_SECONDS", 0.05)


def ran(thread: threading.Thread) -> None:
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def failures(here: Threads) -> dict[str, float]:
    return {labels[0]: value for _, labels, value in here.samples()}


@pytest.mark.parametrize("error", [ValueError("x"), MemoryError(), RecursionError(), SystemExit(3)])
def test_a_loop_goes_on_after_whatever_was_raised(error: BaseException) -> None:
    here, tries = Threads(), []

    def work() -> None:
        tries.append(None)
        if len(tries) < 4:
            raise error

    ran(here.loop("cycles", work))

    assert 4 == len(tries)
    assert {"cycles": 3} == failures(here)


def test_a_task_that_fails_is_counted_and_not_begun_again() -> None:
    here, tries = Threads(), []

    def work() -> None:
        tries.append(None)
        raise OSError

    ran(here.task("stop", work))

    assert 1 == len(tries)
    assert {"stop": 1} == failures(here)


def test_a_loop_that_is_told_to_end_does_not_begin_again() -> None:
    here, ended = Threads(), threading.Event()

    def work() -> None:
        ended.set()
        raise OSError

    ran(here.loop("cycles", work, ended))

    assert {"cycles": 1} == failures(here)


def test_a_thread_that_lives_is_shown_with_0() -> None:
    here, end = Threads(), threading.Event()
    thread = here.task("http", lambda: end.wait(PATIENCE_SECONDS) and None)
    thread.start()
    alive = failures(here)
    end.set()
    thread.join(PATIENCE_SECONDS)

    assert {"http": 0} == alive
    assert {} == failures(here)


def test_health_says_who_fails_again_and_again_until_it_goes_on() -> None:
    now = [0.0]
    here, tries = Threads(lambda: now[0]), []
    said: list[str] = []

    def work() -> None:
        said.append(here.unhealthy())
        tries.append(None)
        if len(tries) <= 3:
            raise OSError

    ran(here.loop("cycles", work))
    now[0] += STEADY_SECONDS

    assert said[:3] == [""] * 3
    assert "cycles" in said[3]
    assert here.unhealthy() == ""


def test_every_page_of_ours_has_the_count() -> None:
    assert {"collector", "analyzer", "remediator"} <= {
        exporter for exporter, rows in m.EXPORTED.items() if m.THREAD_FAILURES.name in rows
    }


def test_no_other_place_makes_threads() -> None:
    found = {
        str(path.relative_to(ROOT))
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute | ast.Name)
        and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
        in ("Thread", "Timer", "start_new_thread", "start_joinable_thread")
        and "stacks" not in path.stem
        and path.parent.name != "on_demand"  # threads of ranks, in their stacks
    }

    assert found == set(ELSEWHERE)


def test_a_failed_thread_of_the_process_that_asks_the_driver_ends_it_with_a_word(capfd) -> None:
    import subprocess

    program = (
        "import threading, time; from pathlib import Path;"
        " from lockstep.collector.sources.gpu.nvml.child import Session;"
        " session = Session(Path('/nowhere'), 5.0, 1); threading.excepthook = session.fail;"
        " threading.Thread(target=lambda: 1 / 0).start(); time.sleep(30)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )

    assert done.returncode == 4
    assert b'"failed":"internal"' in done.stdout

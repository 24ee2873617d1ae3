"""What every test may use: golden files, the option that renews them, tiers, and who yields."""

import asyncio
import difflib
import functools
import gc
import os
import re
import signal
import socketserver
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.chromium import browser, page, visitor
from tests.tiers import REAL_MARKS, SAMPLE, SWEEP_MARK, Tier, case_id, sample, tier, unstable

__all__ = ["browser", "page", "visitor"]

# A loaded machine is slow, not wrong: properties are judged by what holds, not by how fast.
hypothesis.settings.register_profile("lockstep", deadline=None)
hypothesis.settings.register_profile("sample", deadline=None, max_examples=25)
hypothesis.settings.load_profile("lockstep")

# A thread of a test's own server whose client is gone would write on the stderr of another test.
socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]

PARTS = (
    "analyzer", "bench", "collector", "dashboard", "evaluation", "grafana", "watch", "workloads",
)  # fmt: skip
"""Folders beside lockstep/, imported as lockstep.<part>. Where the tree is a folder of imports the
bare name would be a second copy of every class, and in a wheel it is none: nothing may ask for it.
"""
sys.modules.update(dict.fromkeys(PARTS))  # type: ignore[arg-type]  # None: its import fails

GOLDEN = Path(__file__).parent / "golden"
SHOWN_LINES = 60
YIELDING = 5
"""Niceness of a worker beside the timed tests: it has what they leave, or else a quarter."""
TOGETHER = {"cluster": "cluster", "pods": "cluster", "browser": "browser"}
"""By marker, files that share something large that one worker starts: nodes, a browser."""
LONG = (
    "tests/bench/test_stop_resume_real.py",
    "tests/lockstep/test_run_ends.py",
    "tests/lockstep/test_stacks.py",
    "tests/deploy/test_hang.py",
    "tests/test_adding.py",
    "tests/workloads/loop/test_training.py",
    "tests/workloads/launch/test_mpirun.py",
    "tests/examples/test_examples.py",
    "tests/bench/api/test_server.py",
    "tests/lockstep/test_kills.py",
    "tests/workloads/launch/test_external_program.py",
    "tests/lockstep/test_servers.py",
    "tests/lockstep/test_task_runs.py",
    "tests/cluster/slurm/test_slurm.py",
)
"""Files of half a minute and more: begun last, one of them would be waited for by the others."""
FIRST = pytest.StashKey[pytest.Item]()
MARK = re.compile(r"\bmark\.(\w+)")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-goldens",
        action="store_true",
        help="write the golden files under tests/golden instead of comparing with them",
    )
    parser.addoption(
        "--tier",
        action="append",
        type=Tier,
        choices=list(Tier),
        help="only the tests of this tier (tests/tiers.py); may be given again; default: all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A property is a sweep, too: without these, a quarter of its examples.

    Who was started in the background of a script ignores Ctrl-C, and with nohup a hangup as well;
    so would all that it starts.
    """
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if Tier.SWEEP not in wanted(config):
        hypothesis.settings.load_profile("sample")


def pytest_make_parametrize_id(val: object) -> str | None:
    return case_id(val)


def wanted(config: pytest.Config) -> list[Tier]:
    return config.getoption("tier") or list(Tier)


@functools.cache
def marks(file: Path) -> frozenset[str]:
    """The markers that a test file names."""
    return frozenset(MARK.findall(file.read_text()))


def is_timed(file: Path) -> bool:
    """Whether a test file judges how long something real takes."""
    return "timed" in marks(file)


def is_real(file: Path) -> bool:
    """Whether a test file may have tests of the real tier."""
    return not REAL_MARKS.isdisjoint(marks(file))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where the real tier alone is asked for, three files of four have none of it: not imported."""
    unneeded = (
        wanted(config) == [Tier.REAL]
        and collection_path.match("test_*.py")
        and not is_real(collection_path)
    )
    return True if unneeded else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: the garbage collector need not look at it, ever."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tiers that were asked for; timed files come first, see the scheduler below.

    After them what one worker has for long: begun last, it would be waited for by the others.
    """
    if moving := [item.nodeid for item in items if unstable(item.nodeid)]:
        raise pytest.UsageError(f"ids with an address differ between workers: {moving}")
    tiers = _tiers(items)
    if unseen := [item.nodeid for item in items
                  if tiers[item] is Tier.REAL and not is_real(item.path)]:  # fmt: skip
        raise pytest.UsageError(f"real, but their files do not name a marker of it: {unseen}")
    here = wanted(config)
    config.hook.pytest_deselected(items=[item for item in items if tiers[item] not in here])
    items[:] = [item for item in items if tiers[item] in here]
    if Tier.REAL in here:
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, bool, int]:
    """When a real test is begun, as a key to sort by."""
    file = item.nodeid.partition("::")[0]
    long = LONG.index(file) if file in LONG else len(LONG)
    return not is_timed(item.path), not _together(item.path), long


def _together(file: Path) -> str:
    """What a test file shares with others, see TOGETHER; empty: nothing."""
    return next((TOGETHER[each] for each in TOGETHER if each in marks(file)), "")


def _tiers(items: list[pytest.Item]) -> dict[pytest.Item, Tier]:
    sweeps = defaultdict(list)
    for item in items:
        if item.get_closest_marker(SWEEP_MARK):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    left_out = set()
    for cases in sweeps.values():
        size = next(cases[0].iter_markers(SWEEP_MARK)).kwargs.get("sample", SAMPLE)
        kept = sample([case.nodeid for case in cases], size)
        left_out |= {case for case in cases if case.nodeid not in kept}
    return {
        item: tier((mark.name for mark in item.iter_markers()), sampled=item not in left_out)
        for item in items
    }


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With --dist loadfile, one worker has all timed files, so that no two of them run at once."""
    if config.getvalue("dist") != "loadfile" or Tier.REAL not in wanted(config):
        return None
    from xdist.scheduler import LoadFileScheduling

    class TimedFilesTogether(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            path = config.rootpath / file
            return "timed" if is_timed(path) else _together(path) or file

    config.option.loadscopereorder = False
    return TimedFilesTogether(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A worker that does not begin with the timed files never has them, and yields to them."""
    if FIRST in item.config.stash:
        return
    item.config.stash[FIRST] = item
    beside = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1
    if beside and Tier.REAL in wanted(item.config) and not is_timed(item.path):
        os.nice(YIELDING)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that leaves or ends the thread's running event loop is the one that fails.

    Otherwise a browser test does, much later: Playwright keeps a loop running between its calls.
    """
    before = asyncio._get_running_loop()
    try:
        return (yield)
    finally:
        after = asyncio._get_running_loop()
        if after is not before:
            pytest.fail(f"before the test the event loop {before} ran in this thread, now {after}")


@pytest.fixture(scope="session", autouse=True)
def _own_queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Benchmarks of tests wait for nobody else here: lockstep.bench.processes.VARIABLE."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKSTEP_BENCH_QUEUE", str(tmp_path_factory.getbasetemp() / "bench.queue"))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: text equals tests/golden/<name>, or the test shows the difference."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--renew-goldens"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; renew it with --renew-goldens and review it")
        expected = path.read_bytes().decode()
        if expected != text:
            pytest.fail(_difference(name, expected, text), pytrace=False)

    return compare


def _difference(name: str, expected: str, actual: str) -> str:
    lines = list(
        difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), f"golden/{name}", "now", lineterm=""
        )
    )
    hidden = len(lines) - SHOWN_LINES
    tail = [f"... and {hidden} more lines"] if hidden > 0 else []
    if not lines:
        lines = ["the two differ in line ends only"]
    return "\n".join(
        [
            f"{name} is not its golden file (meant? renew with --renew-goldens):",
            *lines[:SHOWN_LINES],
            *tail,
        ]
    )

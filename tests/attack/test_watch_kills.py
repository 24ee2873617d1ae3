"""`kill -9` of watch while findings open and close: none is lost, and none is told twice.

14 is what was tried first: LOCKSTEP_ATTACK=5 makes 15 (`bounds`).
"""

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from lockstep.analyzer.findings.alertmanager.posting import FIRING_SECONDS
from lockstep.watch.archive import finding_folders
from tests.attack.bounds import times
from tests.attack.watch_program import WatchProgram
from tests.hostile_server import HEAD, serving
from tests.watch.fake_prometheus import FakePrometheus
from tests.watch.over_http import over_http

pytestmark = [pytest.mark.distributed, pytest.mark.timeout(times(400))]

KILLS = times(3)
ROUND_SECONDS = 140.0
"""On Prometheus' clock: what was not seen for so long is over."""


class Alertmanager:
    """What one was told: labels of an alert -> its moments of beginning and of end."""

    def __init__(self) -> None:
        self.starts: dict[str, set[str]] = defaultdict(set)
        self.ends: dict[str, str] = {}

    def answer(self, request: bytes):
        head, _, body = request.partition(b"\r\n\r\n")
        if b"100-continue" in head or not body.startswith(b"["):
            return [HEAD, b"Content-Length: 0\r\nConnection: close\r\n\r\n"]
        for alert in json.loads(body):
            key = alert["labels"].get("gpu", "") + alert["labels"].get("node", "")
            self.starts[key].add(alert["startsAt"])
            self.ends[key] = alert["endsAt"]
        return [HEAD, b"Content-Length: 0\r\nConnection: close\r\n\r\n"]


def hit(gpu: int) -> dict[str, str]:
    """An error of a GPU that works for nobody; those of five minutes have an alert each."""
    return {
        "job": "lockstep", "instance": "127.0.0.1:9", "gpu": str(gpu), "uuid": f"GPU-x{gpu}",
        "xid": ("48", "64", "79", "95")[gpu % 4],
    }  # fmt: skip


def open_now(page: str) -> set[str]:
    lines = [line for line in page.splitlines() if line.startswith("lockstep_finding_active{")]
    return {line.partition('gpu="')[2].partition('"')[0] for line in lines}


def test_no_kill_loses_a_finding_or_tells_one_twice(tmp_path):
    chance, prometheus = random.Random(18), FakePrometheus()
    there = Alertmanager()
    with over_http(prometheus) as url, serving(there.answer) as alertmanager:
        watch = WatchProgram(url, tmp_path, "--alertmanager", alertmanager)
        try:
            for round_ in range(KILLS):
                # What is over before anybody wrote it down has no archive: so it is written first.
                wait_for(watch, lambda: gpus(tmp_path) >= set(range(round_ - 1)))  # noqa: B023 - at once
                prometheus.now += ROUND_SECONDS
                prometheus.xids = [
                    (hit(gpu), prometheus.now - 5.0) for gpu in (round_ - 1, round_) if gpu >= 0
                ]
                time.sleep(chance.uniform(0.0, 1.2))
                watch.kill()
                watch = WatchProgram(url, tmp_path, "--alertmanager", alertmanager)
                wanted = {str(gpu) for gpu in (round_ - 1, round_) if gpu >= 0}
                watch.until(lambda page: open_now(page) == wanted)  # noqa: B023 - at once
            wait_for(watch, lambda: gpus(tmp_path) >= set(range(KILLS)))
            prometheus.now += ROUND_SECONDS
            prometheus.xids = []
            watch.until(lambda page: not open_now(page))
            wait_for(watch, lambda: all(one.get("closed") for one in written(tmp_path)))
            # One whose watch was killed before it could tell the end lapses by itself.
            lapsed = (datetime.now(UTC) + timedelta(seconds=FIRING_SECONDS)).isoformat()
            wait_for(watch, lambda: len(there.ends) == KILLS and max(there.ends.values()) <= lapsed)
        finally:
            watch.close()
    found = written(tmp_path)

    assert sorted(map(str, range(KILLS))) == sorted(str(one["key"]["gpu"]) for one in found)
    assert all(one["closed"] is not None for one in found)
    assert KILLS == len(there.ends)
    assert {1} == {len(starts) for starts in there.starts.values()}
    assert "Traceback" not in watch.log()


def written(folder) -> list[dict]:
    """The findings that have an archive."""
    return [told for _, told in finding_folders.findings(folder / "out", [""])]


def gpus(folder) -> set[int]:
    """Those that the archives are about."""
    return {one["key"]["gpu"] for one in written(folder)}


def wait_for(watch: WatchProgram, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end, f"not in time; watch said:\n{watch.log()[-4000:]}"
        time.sleep(0.1)

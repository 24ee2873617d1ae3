"""What the archivist has to do: bounded, and what failed comes again."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.analyzer.findings.finding import Kind, Tier, WatchFinding, Who, finding_json
from lockstep.analyzer.read.prometheus.access import access
from lockstep.watch.archive import finding_folders
from lockstep.watch.archive.archivist import Archivist
from lockstep.watch.archive.jobs import Closing, Jobs, Opening, Plan
from lockstep.watch.judge.diagnoses import Pages
from lockstep.watch.settings import Settings

PLAN = Plan(Pages({}, part=False), {}, 0.0, 1.0, 0, None)
SECONDS = 10.0


@pytest.fixture
def finding() -> WatchFinding:
    return WatchFinding(
        who=Who("gpt-1", "node-1", 1, 0, None), kind=Kind.EVENT, scope="gpu", attempt=0,
        cause="xid", tier=Tier.PAGE, confidence=0.9, slowdown=None, onset=1.0, first_seen=1.0,
        opened=1.0, seen=1.0, closed=None, sentence="XID 79.", facts=(), folder="gpt-1/x",
    )  # fmt: skip


class FullDisk(Archivist):
    """The first try fails; `wrote` is set after the second."""

    def __init__(self, out: Path) -> None:
        settings = Settings(access("http://127.0.0.1:9", {}), out, None)
        super().__init__(settings, Jobs(first_pause=0.02))
        self.tries: list[WatchFinding] = []
        self.wrote = threading.Event()

    def write(self, finding: WatchFinding, plan: Plan, *, again: bool = False) -> Path:
        self.tries.append(finding)
        if len(self.tries) == 1:
            raise OSError(28, "No space left on device")
        self.wrote.set()
        return Path()


def test_more_jobs_than_may_wait_are_refused(finding):
    jobs = Jobs(most=2)

    assert [True, True, False] == [jobs.put(Opening(finding, PLAN)) for _ in range(3)]


def test_what_failed_comes_again_after_what_is_new(finding):
    jobs = Jobs(first_pause=0.01)
    first, second = Opening(finding, PLAN), Closing(replace(finding, folder="gpt-1/y", closed=2.0))
    jobs.put(first)
    jobs.put(second)

    assert first == jobs.take()
    jobs.over(failed=True)
    assert second == jobs.take()
    jobs.over(failed=False)
    assert first == jobs.take()


def test_an_archive_that_is_written_late_says_that_its_finding_closed(finding):
    jobs = Jobs(first_pause=0.0)
    jobs.put(Opening(finding, PLAN))
    jobs.take()
    jobs.over(failed=True)

    assert jobs.closes_later(Closing(replace(finding, closed=9.0)))
    assert not jobs.closes_later(Closing(replace(finding, folder="gpt-1/other")))
    assert Opening(replace(finding, closed=9.0), PLAN) == jobs.take()


def test_nothing_is_taken_after_the_end(finding):
    jobs = Jobs()
    jobs.put(Opening(finding, PLAN))
    jobs.end()

    assert jobs.take() is None


def test_an_archive_that_finds_the_disk_full_is_tried_again(finding, tmp_path, caplog):
    archivist = FullDisk(tmp_path)
    archivist.start()
    archivist.opened(finding, PLAN)

    assert archivist.wrote.wait(SECONDS)
    assert archivist.wait(SECONDS)
    assert (frozenset({"gpt-1/x"}), frozenset()) == archivist.done()
    assert 1 == archivist.failures
    assert ["No space left on device; it is tried again"] == [
        record.getMessage().partition(": ")[2] for record in caplog.records
    ]
    archivist.stop()


def test_a_closing_that_finds_the_disk_full_is_tried_again(finding, tmp_path, monkeypatch):
    place = tmp_path / finding.folder
    place.mkdir(parents=True)
    finding_folders.write(place, finding_json(finding))
    update, wrote, tries = finding_folders.update, threading.Event(), []

    def full_once(folder, change):
        tries.append(folder)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        wrote.set()
        return update(folder, change)

    monkeypatch.setattr(finding_folders, "update", full_once)
    archivist = FullDisk(tmp_path)
    archivist.start()
    archivist.closed(replace(finding, closed=7.0))

    assert wrote.wait(SECONDS)
    assert archivist.wait(SECONDS)
    assert (frozenset(), frozenset({"gpt-1/x"})) == archivist.done()
    assert 7.0 == json.loads((place / "finding.json").read_text())["closed"]
    archivist.stop()


@pytest.mark.parametrize(("there", "said"), [(True, []), (False, ["its dumps were gone"])])
def test_an_archive_says_that_the_dumps_it_tells_of_were_gone(finding, tmp_path, there, said):
    place = tmp_path / finding.folder
    place.mkdir(parents=True)
    finding_folders.write(place, finding_json(finding))
    settings = Settings(access("http://127.0.0.1:9", {}), tmp_path, None)
    archivist = Archivist(settings, keep=lambda *_: there)
    archivist.start()
    archivist.dumped(finding)

    assert archivist.wait(SECONDS)
    archivist.stop()
    evidence = json.loads((place / "finding.json").read_text())["evidence"]
    assert said == [one["text"][: len("its dumps were gone")] for one in evidence]


def test_what_is_renewed_keeps_alerts_and_what_was_said_of_dumps(finding, tmp_path):
    place = tmp_path / finding.folder
    place.mkdir(parents=True)
    finding_folders.write(place, {**finding_json(finding), "alerts": [{"name": "X"}]})
    archivist = Archivist(
        Settings(access("http://127.0.0.1:9", {}), tmp_path, None), keep=lambda *_: False
    )
    archivist.start()
    archivist.dumped(finding)
    archivist.renewed(replace(finding, cause="nvlink", learnt=9.0, lost_seconds=12.5))

    assert archivist.wait(SECONDS)
    archivist.stop()
    told = json.loads((place / "finding.json").read_text())
    assert ("nvlink", 12.5, [{"name": "X"}]) == (
        told["key"]["cause"], told["lost_seconds"], told["alerts"],
    )  # fmt: skip
    assert ["its dumps were gone"] == [one["text"][:19] for one in told["evidence"]]


def test_what_is_renewed_after_its_end_does_not_open_it_again(finding, tmp_path):
    place = tmp_path / finding.folder
    place.mkdir(parents=True)
    finding_folders.write(place, finding_json(replace(finding, closed=20.0)))
    archivist = Archivist(Settings(access("http://127.0.0.1:9", {}), tmp_path, None))
    archivist.start()
    archivist.renewed(replace(finding, learnt=9.0))

    assert archivist.wait(SECONDS)
    archivist.stop()
    assert 20.0 == json.loads((place / "finding.json").read_text())["closed"]


def test_an_archive_that_is_written_after_the_end_of_its_finding_has_a_report(
    finding, tmp_path, monkeypatch
):
    reported: list[Path] = []
    archivist = Archivist(
        Settings(access("http://127.0.0.1:9", {}), tmp_path, None),
        report=lambda archive, _: reported.append(archive),
    )
    monkeypatch.setattr(archivist, "_read", lambda *_: (None, "it does not answer"))
    archivist.start()
    archivist.opened(replace(finding, closed=2.0), PLAN)

    assert archivist.wait(SECONDS)
    archivist.stop()
    assert [tmp_path / finding.folder] == reported
    assert (frozenset({finding.folder}),) * 2 == archivist.done()


def test_what_dumps_tell_after_the_end_does_not_say_that_what_is_over_lasts(finding, tmp_path):
    place = tmp_path / finding.folder
    place.mkdir(parents=True)
    over = replace(finding, seen=100.0, closed=160.0, ending="it is told of no more")
    finding_folders.write(place, finding_json(over))
    archivist = Archivist(
        Settings(access("http://127.0.0.1:9", {}), tmp_path, None), keep=lambda *_: True
    )
    archivist.start()
    hang = {"group": "dp", "sequence": 7}
    archivist.dumped(replace(finding, seen=100.0, hang=hang))  # the disk was full before

    assert archivist.wait(SECONDS)
    archivist.stop()
    told = json.loads((place / "finding.json").read_text())
    assert (over.summary, 160.0, hang) == (told["sentence"], told["closed"], told["hang"])

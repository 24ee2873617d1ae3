"""From a firing alert to the post-mortem of the right archive, once."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.analyzer.findings.alertmanager.webhook import Notification, ReceivedAlert
from lockstep.analyzer.findings.finding import WatchFinding, finding_json
from lockstep.collector.contract import metrics as m
from lockstep.watch.archive import finding_folders
from lockstep.watch.archive.reports import Done, Reports, Urgency
from lockstep.watch.deliver import postmortem
from lockstep.watch.deliver.postmortem import PostMortems, WatchAccess

XID = ReceivedAlert("f1", True, {"alertname": "LockstepGpuXidFatal", "node": "node-2", "gpu": "0"},
                    {"summary": "XID 79 on node-2."}, 5000.0, None)  # fmt: skip
SLOW = ReceivedAlert("f2", True, {"alertname": "LockstepFinding", "run": "gpt", "node": "node-2",
            "rank": "2", "cause": "thermal", "tier": "page"}, {}, 5000.0, None)  # fmt: skip
FRESH = "19700101T012321Z-LockstepGpuXidFatal-node-2-gpu-0-f1"


class Scene(Reports):
    """A folder of archives, runs that live, and reports that say that they were written."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out = out
        self.live = {"node-2": ["gpt"]}
        self.reports: list[str] = []
        self.wrong = ""
        self.wanted = threading.Event()
        watched = WatchAccess(out, self._live, self._archive)
        self.urgencies: list[Urgency] = []
        self.post_mortems = PostMortems(watched, lambda: 5001.0, self)

    def told(self, *alerts: ReceivedAlert) -> bool:
        taken = self.post_mortems.take(Notification(alerts))
        self.post_mortems.work()
        return taken

    def finding(self, name: str, **key: object) -> Path:
        folder = self.out / "gpt" / name
        folder.mkdir(parents=True)
        place = {"run": "gpt", "node": None, "rank": None, "gpu": None, "cause": None, "tier": None}
        tree = {"key": place | key, "opened": 4990.0, "closed": None, "alerts": []}
        (folder / "finding.json").write_text(json.dumps(tree))
        return folder

    @property
    def told_counts(self) -> dict[str, float]:
        page = self.post_mortems.samples()
        return {
            " ".join(sample.labels) or "waiting": sample.value
            for sample in page
            if sample.metric is not m.POST_MORTEM_DURATION
        }

    def _live(self, node: str | None) -> list[str]:
        return ["gpt"] if node is None else self.live.get(node, [])

    def _archive(self, finding: WatchFinding) -> Path:
        folder = self.out / finding.folder
        folder.mkdir(parents=True)
        (folder / "finding.json").write_text(json.dumps(finding_json(finding)))
        return folder

    def want(self, folder: Path, urgency: Urgency, done: Done | None = None) -> None:
        if not self.wrong:
            self.reports.append(folder.name)
            self.urgencies.append(urgency)
            (folder / "report.html").touch()
        self.wanted.set()
        if done is not None:
            done(self.wrong)


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    monkeypatch.setattr(postmortem, "RULE_PATIENCE_SECONDS", 0.0)
    return Scene(tmp_path)


def alerts(folder: Path) -> list[tuple[str, float, float | None]]:
    told = finding_folders.read(folder)["alerts"]
    return [(each["name"], each["received"], each["ends_at"]) for each in told]


def test_an_alert_is_noted_in_its_finding_and_the_report_written(scene) -> None:
    scene.finding("other", node="node-7")
    folder = scene.finding("ours", node="node-2", gpu=0)
    scene.told(XID)

    assert [("LockstepGpuXidFatal", 5001.0, None)] == alerts(folder)
    assert ["ours"] == scene.reports
    assert {"written": 1, "failed": 0, "unmatched": 0, "waiting": 0} == scene.told_counts


def test_an_alert_told_again_or_ended_writes_nothing_anew(scene) -> None:
    folder = scene.finding("ours", node="node-2")
    scene.told(XID)
    scene.told(XID, XID)
    scene.told(replace(XID, firing=False, ends_at=5600.0))

    assert [("LockstepGpuXidFatal", 5001.0, 5600.0)] == alerts(folder)
    assert ["ours"] == scene.reports


def test_a_restart_writes_nothing_anew_but_what_it_interrupted(scene, tmp_path) -> None:
    folder = scene.finding("ours", node="node-2")
    scene.told(XID)
    after = Scene(tmp_path)
    after.told(XID)
    (folder / "report.html").unlink()
    again = Scene(tmp_path)
    again.told(XID)

    assert ([], ["ours"]) == (after.reports, again.reports)


def test_the_end_may_come_before_the_beginning(scene) -> None:
    folder = scene.finding("ours", node="node-2")
    scene.told(replace(XID, firing=False, ends_at=5600.0))
    scene.told(XID)

    assert [("LockstepGpuXidFatal", 5001.0, 5600.0)] == alerts(folder)
    assert ["ours"] == scene.reports


def test_several_alerts_of_one_finding_are_one_report(scene) -> None:
    scene.finding("ours", node="node-2")
    scene.told(XID, replace(XID, fingerprint="f3"), replace(XID, fingerprint="f4"))

    assert ["ours"] == scene.reports


def test_an_alert_of_a_rule_without_a_finding_gets_an_archive_of_its_own(scene) -> None:
    scene.told(XID)
    folder = scene.out / "gpt" / FRESH
    finding = json.loads((folder / "finding.json").read_text())

    assert [FRESH] == scene.reports
    assert ("XID 79 on node-2.", "node-2", 0) == (
        finding["sentence"], finding["key"]["node"], finding["key"]["gpu"],
    )  # fmt: skip
    scene.told(replace(XID, fingerprint="f9"))
    assert 2 == len(alerts(folder))


def test_the_alert_of_a_finding_waits_for_its_archive(scene, monkeypatch) -> None:
    scene.told(SLOW)
    assert ([], 1) == (scene.reports, scene.told_counts["waiting"])

    scene.finding("ours", node="node-2", rank=2, cause="thermal", tier="page")
    scene.post_mortems.work()
    assert (["ours"], 0) == (scene.reports, scene.told_counts["waiting"])


def test_the_alert_of_a_rule_waits_a_moment_for_a_finding_about_it(scene, monkeypatch) -> None:
    monkeypatch.setattr(postmortem, "RULE_PATIENCE_SECONDS", 60.0)
    scene.told(XID)
    assert ([], 1) == (scene.reports, scene.told_counts["waiting"])

    scene.finding("ours", node="node-2", gpu=0)
    scene.post_mortems.work()
    assert ["ours"] == scene.reports


def test_a_finding_whose_archive_never_comes_gets_one_of_its_alert(scene, monkeypatch) -> None:
    monkeypatch.setattr(postmortem, "PATIENCE_SECONDS", 0.0)
    scene.told(SLOW)

    assert ["19700101T012321Z-LockstepFinding-node-2-rank-2-f2"] == scene.reports


@pytest.mark.parametrize("labels", [{"run": "../../etc"}, {"node": "<b>\n"}, {}])
def test_an_alert_about_nothing_known_is_said_and_counted(scene, labels, caplog) -> None:
    scene.told(replace(XID, labels=labels))

    assert ([], 1) == (scene.reports, scene.told_counts["unmatched"])
    [sentence] = [record.getMessage() for record in caplog.records]
    assert sentence.isprintable()
    assert [] == list(scene.out.iterdir())


def test_a_report_that_fails_is_counted_and_the_next_is_written(scene) -> None:
    scene.finding("ours", node="node-2")
    scene.wrong = "No space left on device"
    scene.told(XID)
    scene.wrong = ""
    scene.told(replace(XID, fingerprint="f3"))

    assert ["ours"] == scene.reports
    assert (1, 1) == (scene.told_counts["failed"], scene.told_counts["written"])


def test_the_report_of_a_page_is_more_urgent_than_one_that_is_written_again(scene) -> None:
    scene.finding("ours", node="node-2")
    critical = replace(XID, labels={**XID.labels, "severity": "critical"})
    scene.told(critical)
    scene.told(replace(critical, fingerprint="f3"))

    assert [Urgency.PAGE, Urgency.LATER] == scene.urgencies


def test_an_alert_that_came_to_nothing_is_tried_again_when_it_is_told_again(scene) -> None:
    scene.live = {}
    scene.told(XID)
    scene.live = {"node-2": ["gpt"]}
    scene.told(XID)

    assert [FRESH] == scene.reports


def test_a_report_that_failed_is_written_when_its_alert_is_told_again(scene) -> None:
    scene.finding("ours", node="node-2")
    scene.wrong = "No space left on device"
    scene.told(XID)
    scene.wrong = ""
    scene.told(XID)

    assert ["ours"] == scene.reports


def test_the_end_says_which_alerts_got_nothing(scene, caplog) -> None:
    scene.told(SLOW, replace(SLOW, fingerprint="f3"))
    scene.post_mortems.stop()

    assert (
        "2 alerts have no post-mortem yet, and this process ends: 'LockstepFinding'"
        == caplog.records[-1].getMessage()
    )


def test_a_new_process_writes_the_reports_that_the_one_before_did_not(scene, tmp_path) -> None:
    scene.finding("ours", node="node-2")
    scene.wrong = "No space left on device"
    scene.told(XID)
    after = Scene(tmp_path)
    after.post_mortems.start()

    assert after.wanted.wait(10)
    after.post_mortems.stop()
    assert ["ours"] == after.reports


def test_what_does_not_fit_is_refused_whole(scene) -> None:
    many = [replace(SLOW, fingerprint=f"{number}") for number in range(postmortem.MAX_WAITING)]

    assert scene.told(*many)
    assert not scene.told(XID)
    assert postmortem.MAX_WAITING == scene.told_counts["waiting"]


def test_a_torn_finding_is_left_alone(scene) -> None:
    torn = scene.finding("torn", node="node-2") / "finding.json"
    torn.write_text('{"key": ')
    scene.told(XID)

    assert '{"key": ' == torn.read_text()
    assert [FRESH] == scene.reports


def test_a_thread_does_it_and_ends_at_once(scene) -> None:
    scene.finding("ours", node="node-2")
    (scene.out / "gpt" / "ours" / "report.html").touch()
    scene.post_mortems.start()
    scene.post_mortems.take(Notification((XID,)))

    assert scene.wanted.wait(10)
    scene.post_mortems.stop()

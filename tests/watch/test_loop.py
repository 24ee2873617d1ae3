"""Cycle after cycle over a Prometheus that may be slow, wrong, or away."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockstep.analyzer.read.prometheus.access import access
from lockstep.collector.contract.archive import STEPS, STEPS_FILE
from lockstep.collector.contract.metric_rows import analyzer
from lockstep.collector.contract.metrics import Metric
from lockstep.collector.exporter.page import render
from lockstep.collector.recorder.parts import arrow_schema
from lockstep.diagnose import diagnosis
from lockstep.watch.cycle import ENDS_TOLD_SECONDS
from lockstep.watch.judge import diagnoses
from lockstep.watch.loop import NO_OPERATIONS, Watch
from lockstep.watch.settings import Settings
from tests.watch.conftest import DELIVERY

HTML = (200, b"<html>Login</html>")


@pytest.fixture
def xid(prometheus) -> Callable[[int], None]:
    """`xid(rank)`: the driver logs that a rank's GPU fell off the bus."""

    def log(rank):
        labels = {**prometheus._target(rank), "gpu": "0", "uuid": f"GPU-{rank}", "xid": "79"}
        prometheus.xids = [(labels, prometheus.now)]

    return log


def opened(changes):
    return [finding for new, _, _ in changes for finding in new]


def closed(changes):
    return [finding for _, old, _ in changes for finding in old]


def test_a_healthy_run_has_no_finding(watching, cycles, prometheus):
    changes = cycles(watching(None), 12)

    assert 12 == len(changes)
    assert [] == opened(changes)


def test_a_slow_rank_is_a_page_with_an_archive_that_names_it(
    watching, cycles, prometheus, tmp_path
):
    watch = watching()
    prometheus.slow = (2, 1.5, prometheus.now)

    found = opened(cycles(watch, 9))

    assert [("gpt-1", "node-2", 2, "page")] == [
        (one.who.run, one.who.node, one.who.rank, one.tier) for one in found
    ]
    assert watch.wait(30.0)
    folder = tmp_path / "out" / found[0].folder
    finding = json.loads((folder / "finding.json").read_text())
    assert (1, 2, None) == (finding["schema_version"], finding["key"]["rank"], finding["closed"])
    verdict = json.loads((folder / "verdict.json").read_text())
    assert [2] == [each["rank"] for each in verdict["culprits"]]
    assert 4 == sum("no operations of" in words for words in verdict["missing"])
    assert [] == list(folder.parent.glob(".*"))


def test_the_verdict_about_an_archive_is_the_one_by_which_its_finding_opened(
    watching, cycles, prometheus, tmp_path
):
    watch = watching()
    cycles(watch, 4)
    prometheus.slow = (2, 1.5, prometheus.now)
    prometheus.leaf = {"node-1": "leaf-a"}

    found = opened(cycles(watch, 9))

    assert watch.wait(30.0)
    folder = tmp_path / "out" / found[0].folder
    then, now = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("opened", "verdict")
    )
    assert [2] == [each["rank"] for each in now["culprits"]]
    assert [(True, True, 2)] == [
        (each["place_agrees"], each["agrees"], each["rank"]) for each in now["history"]
    ]
    # Only the collectors' operations were asked for afterwards.
    beside = ("history", "missing", "recurrence")
    assert {**then, **dict.fromkeys(beside)} == {**now, **dict.fromkeys(beside)}
    # More is recorded than was judged.
    recorded = pd.read_parquet(folder / "samples.parquet")["time"]
    judged = json.loads((folder / "run.json").read_text())["judged"]
    assert recorded.min() < judged["start"] < judged["end"] <= recorded.max() + 15.0


def test_steps_that_all_lie_after_the_onset_hide_nobody(watching, cycles, prometheus, tmp_path):
    watch = watching()
    cycles(watch, 4)
    prometheus.slow = (2, 1.5, prometheus.now)
    found = opened(cycles(watch, 9))
    assert watch.wait(30.0)
    folder = tmp_path / "out" / found[0].folder
    before = diagnosis.diagnose_archive(folder).verdict

    # Rings hold the last steps only: rank 2 is slow in all of them, as a slow part may always be.
    last = pd.DataFrame([
        {"step": step, "rank": rank, "attempt": 0, "start": prometheus.now - 30 + step % 10,
         "wall_seconds": 0.7, "own_seconds": 0.6 if rank == 2 else 0.4, "tags": ""}
        for step in range(2600, 2610) for rank in range(4)
    ])  # fmt: skip
    schema = arrow_schema(STEPS)
    rows = last.reindex(columns=schema.names)
    pq.write_table(pa.Table.from_pandas(rows, schema, preserve_index=False), folder / STEPS_FILE)
    after = diagnosis.diagnose_archive(folder).verdict

    assert [2] == [each.rank for each in after.culprits]
    assert before.culprits == after.culprits
    assert before.sentence == after.sentence


def test_a_finding_is_open_once_across_kills(watching, cycles, prometheus):
    prometheus.slow = (1, 1.5, prometheus.now)
    found = opened(cycles(watching(None), 9))

    again = [change for _ in range(2) for change in cycles(watching(None), 1)]

    assert 1 == len(found)
    assert [] == opened(again)
    assert [[found[0].folder]] * 2 == [[one.folder for one in still] for _, _, still in again]


def test_a_finding_closes_when_it_is_over_and_its_archive_says_so(
    watching, cycles, prometheus, xid, tmp_path
):
    watch = watching()
    xid(1)
    found = opened(cycles(watch, 1))
    prometheus.xids = []

    over = closed(cycles(watch, 4, 100.0))

    assert [found[0].folder] == [one.folder for one in over]
    assert watch.wait(30.0)
    told = json.loads((tmp_path / "out" / found[0].folder / "finding.json").read_text())
    assert over[0].closed == told["closed"]
    assert found[0].opened + 300.0 == over[0].closed


def test_a_rank_that_is_gone_opens_at_once(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.gone = (3, prometheus.now + 1.0)

    found = opened(cycles(watch, 3))

    assert [(3, "crash", "page")] == [(one.who.rank, one.cause, one.tier) for one in found]
    assert [] == opened(cycles(watch, 4))


def test_a_run_that_ends_as_it_should_is_no_finding(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.ended = prometheus.now + 20.0

    assert [] == opened(cycles(watch, 8))
    assert () == watch.live(None)


def test_a_run_that_ends_with_a_killed_rank_is_a_finding_though_all_are_gone(
    watching, cycles, prometheus
):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.ended, prometheus.killed = prometheus.now + 20.0, 2

    found = opened(cycles(watch, 4))

    assert [(2, "crash", "page")] == [(one.who.rank, one.cause, one.tier) for one in found]
    assert 2 == watch.exit_code()


@pytest.mark.parametrize("killed", [None, 2])
def test_a_run_whose_collectors_end_with_it_is_over(watching, cycles, prometheus, tmp_path, killed):
    watch = watching()
    prometheus.slow = (2, 1.5, prometheus.now)
    slow = opened(cycles(watch, 9))
    prometheus.ended, prometheus.killed = prometheus.now + 10.0, killed
    prometheus.stopped, prometheus.stale = prometheus.now + 16.0, 16.0
    prometheus.now += 16.0

    changes = cycles(watch, 4)

    assert ([2], []) == ([one.who.rank for one in slow], list(watch.live(None)))
    assert [one.folder for one in slow] == [one.folder for one in closed(changes)]
    ends = opened(changes)
    assert [killed] * (killed is not None) == [one.who.rank for one in ends]
    assert watch.wait(60.0)
    for one in ends:
        ranks = pq.read_table(tmp_path / "out" / one.folder / "ranks.parquet")
        assert [0, 1, 2, 3] == sorted(ranks["rank"].to_pylist())


def test_an_error_that_the_driver_logged_opens_at_once(watching, cycles, xid):
    watch = watching(None)
    xid(1)

    found = opened(cycles(watch, 1))

    assert [("node-1", 1, 0, "xid")] == [
        (one.who.node, one.who.rank, one.who.gpu, one.cause) for one in found
    ]
    assert "XID 79" in found[0].sentence


@pytest.mark.parametrize(
    ("reply", "warning", "words"),
    [
        (HTML, "", "does not answer as a Prometheus does"),
        ((200, b""), "", "does not answer as a Prometheus does"),
        ((200, b'{"status":"success","da'), "", "does not answer as a Prometheus does"),
        ((500, b"oops"), "", "answers 500"),
        (None, "No StoreAPIs matched", "answers only in part: No StoreAPIs matched"),
    ],
)
def test_what_is_no_whole_answer_changes_nothing_and_is_said_once(
    reply, warning, words, watching, cycles, prometheus, xid, caplog
):
    watch = watching(None)
    xid(1)
    before = opened(cycles(watch, 1))
    prometheus.reply, prometheus.warning = reply, warning
    caplog.clear()

    assert [] == cycles(watch, 3)
    assert [one.folder for one in before] == [one.folder for one in watch.findings()]
    said = [record.getMessage() for record in caplog.records]
    assert [True] == [words in each for each in said]
    page = {sample.metric.name: sample.value for sample in watch.samples()}
    assert 0 == page["lockstep_analyzer_prometheus_up"]
    assert 3 == page["lockstep_analyzer_query_failures_total"]
    assert 1 == page["lockstep_analyzer_findings_open"]

    prometheus.reply, prometheus.warning = None, ""
    caplog.clear()
    after = cycles(watch, 2)
    assert ([], []) == (opened(after), closed(after))
    assert 1 == sum("answers again" in record.getMessage() for record in caplog.records)


def test_what_happened_while_prometheus_was_away_is_judged_afterwards(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.reply = HTML
    prometheus.slow = (2, 1.5, prometheus.now)
    cycles(watch, 10)
    prometheus.reply = None

    assert [2] == [one.who.rank for one in opened(cycles(watch, 2))]


def test_nodes_that_are_silent_close_nothing_and_crash_nobody(watching, cycles, prometheus, xid):
    watch = watching(None)
    xid(1)
    cycles(watch, 2)
    prometheus.stopped, prometheus.xids = prometheus.now, []

    changes = cycles(watch, 5, 100.0)

    assert ([], []) == (opened(changes), closed(changes))
    assert 1 == len(watch.findings())


def test_a_node_that_is_silent_after_its_fault_keeps_its_finding_also_after_a_restart(
    watching, cycles, prometheus, xid
):
    watch = watching(None)
    xid(1)
    cycles(watch, 2)
    prometheus.silent, prometheus.xids = ({1}, prometheus.now), []

    changes = [*cycles(watch, 5, 100.0), *cycles(watching(None), 5, 100.0)]
    prometheus.silent = None

    assert ([], []) == (opened(changes), closed(changes))
    assert 1 == len(closed(cycles(watching(None), 5, 100.0)))


def test_a_finding_of_a_node_that_is_gone_for_a_day_closes(watching, cycles, prometheus, xid):
    watch = watching(None)
    xid(1)
    cycles(watch, 1)
    prometheus.silent, prometheus.xids = ({1}, prometheus.now), []

    assert 1 == len(closed(cycles(watch, 2, 90_000.0) + cycles(watch, 4, 100.0)))


def test_a_long_checkpoint_is_no_page(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.pauses = [(prometheus.now + 3.0, prometheus.now + 73.0)]

    assert [] == opened(cycles(watch, 10))


def test_a_run_that_stands_for_longer_than_before_is_one_page(watching, cycles, prometheus):
    watch = watching(None)
    cycles(watch, 2)
    prometheus.pauses = [(prometheus.now + 3.0, prometheus.now + 63.0)]
    cycles(watch, 8)
    begin = prometheus.now + 3.0
    prometheus.pauses.append((begin, begin + 1e5))

    found = opened(cycles(watch, 10))

    assert [(0, "page")] == [(one.who.rank, one.tier) for one in found]
    assert 1.5 * 45.0 <= found[0].opened - begin <= 120.0


def test_a_run_that_stands_opens_also_where_no_diagnosis_is_made(
    watching, cycles, prometheus, monkeypatch
):
    watch = watching(None)
    cycles(watch, 2)
    monkeypatch.setattr(watch._cycles.diagnoses, "_one", lambda *_: None)
    watch._cycles.diagnoses.last.clear()
    prometheus.pauses = [(prometheus.now + 3.0, prometheus.now + 1e5)]

    found = opened(cycles(watch, 10))

    assert [None] == [one.who.rank for one in found]
    assert "no step for 120 s" in found[0].sentence


def test_diagnoses_that_fail_close_no_finding(watching, cycles, prometheus, monkeypatch):
    watch = watching(None)
    prometheus.slow = (2, 1.5, prometheus.now)
    found = opened(cycles(watch, 9))
    monkeypatch.setattr(watch._cycles.diagnoses, "_one", lambda *_: None)
    watch._cycles.diagnoses.last.clear()

    assert [] == closed(cycles(watch, 6, 100.0))
    assert [found[0].folder] == [one.folder for one in watch.findings()]


@pytest.mark.parametrize("name", ['<script>"\\\n🔥', "../../x"])
def test_hostile_names_stay_inside_the_folder_and_the_page(
    name, watching, cycles, prometheus, xid, tmp_path
):
    prometheus.run, prometheus.node = name, name + " {}"
    watch = watching()
    xid(2)

    found = opened(cycles(watch, 1))

    assert [name] == [one.who.run for one in found]
    assert watch.wait(30.0)
    folder = (tmp_path / "out" / found[0].folder).resolve()
    assert (tmp_path / "out").resolve() == folder.parent.parent
    assert (folder / "verdict.json").exists()
    families = text_string_to_metric_families(render(watch.samples()))
    exported = {
        (sample.labels["run"], sample.labels["kind"])
        for family in families
        for sample in family.samples
        if sample.name == "lockstep_finding_active"
    }
    assert {(name, found[0].kind)} == exported


def test_the_page_has_the_rows_of_the_contract_and_no_others(watching, cycles, xid):
    watch = watching(None)
    xid(2)
    cycles(watch, 1)

    names = {sample.metric.name for sample in watch.samples()}

    hardware = {"gpu_nvlink_expected", "ib_port_expected"}
    not_here = {f"lockstep_{name}" for name in (*hardware, "run_throughput_baseline_ratio")}
    rows = {one.name for one in vars(analyzer).values() if isinstance(one, Metric)}
    assert rows - not_here - {name for name in rows if DELIVERY.match(name)} == names


def test_a_state_that_cannot_be_saved_is_counted_and_said_once(
    watching, cycles, prometheus, tmp_path, caplog
):
    (tmp_path / "file").write_text("")
    watch = watching(None, tmp_path / "file" / "state")

    cycles(watch, 3)

    page = {sample.metric.name: sample.value for sample in watch.samples()}
    assert 3 == page["lockstep_analyzer_state_write_failures_total"]
    assert 1 == sum("cannot be saved" in record.getMessage() for record in caplog.records)


def test_an_archive_that_an_earlier_process_owes_is_written_by_the_next(
    watching, cycles, xid, tmp_path
):
    xid(2)
    found = opened(cycles(watching(None), 1))
    memory = json.loads((tmp_path / "state" / "memory.json").read_text())
    memory["unwritten"] = {found[0].folder: 1}
    (tmp_path / "state" / "memory.json").write_text(json.dumps(memory))

    watch = watching()
    cycles(watch, 1)

    assert watch.wait(30.0)
    folder = tmp_path / "out" / found[0].folder
    assert (folder / "finding.json").exists()
    # What the first process died of may be the operations.
    missing = json.loads((folder / "verdict.json").read_text())["missing"]
    assert [NO_OPERATIONS] == [words for words in missing if "no operations" in words]
    told = json.loads((tmp_path / "state" / "memory.json").read_text())
    assert {found[0].folder: 2} == told["unwritten"]


@pytest.mark.parametrize("later", [0.0, 2 * ENDS_TOLD_SECONDS])
def test_a_finding_that_closed_in_a_process_that_was_killed_says_so_after_the_next(
    server, watching, cycles, prometheus, xid, tmp_path, later
):
    xid(1)
    first = watching()
    found = opened(cycles(first, 1))
    assert first.wait(30.0)
    first.stop()
    prometheus.xids = []
    killed = Watch(Settings(access(server[0], {}), tmp_path / "out", tmp_path / "state"))
    over = closed(cycles(killed, 4, 100.0))

    watch = watching()
    prometheus.now += later
    cycles(watch, 1)

    assert watch.wait(30.0)
    told = json.loads((tmp_path / "out" / found[0].folder / "finding.json").read_text())
    assert over[0].closed == told["closed"] is not None
    watch.stop()
    memory = json.loads((tmp_path / "state" / "memory.json").read_text())
    assert ({}, {}) == (memory["unwritten"], memory["unclosed"])


def test_an_archive_of_what_closed_before_it_was_written_is_written_by_the_next(
    server, watching, cycles, prometheus, xid, tmp_path
):
    xid(1)
    killed = Watch(Settings(access(server[0], {}), tmp_path / "out", tmp_path / "state"))
    [found] = opened(cycles(killed, 1))
    prometheus.xids = []
    [over] = closed(cycles(killed, 4, 100.0))

    watch = watching()
    cycles(watch, 1)

    assert watch.wait(30.0)
    told = json.loads((tmp_path / "out" / found.folder / "finding.json").read_text())
    assert over.closed == told["closed"] is not None


def test_no_second_archive_is_written_while_a_finding_waits_for_its_own(
    server, cycles, prometheus, xid, tmp_path
):
    watch = Watch(Settings(access(server[0], {}), tmp_path / "out", None))
    xid(1)
    [found] = opened(cycles(watch, 1))

    with pytest.raises(OSError, match="still to be written"):
        watch.archive(replace(found, folder="gpt-1/of-an-alert"))
    assert not (tmp_path / "out").exists()


def test_findings_of_one_minute_share_one_record(watching, cycles, prometheus, xid, tmp_path):
    watch = watching()
    logged = []
    for rank in (1, 2):
        xid(rank)
        logged += prometheus.xids
    prometheus.xids = logged

    found = opened(cycles(watch, 1))

    assert watch.wait(30.0)
    first, second = (tmp_path / "out" / one.folder for one in found)
    assert (first / "samples.parquet").samefile(second / "samples.parquet")
    told = json.loads((second / "finding.json").read_text())
    assert (first.name, found[1].who.rank) == (told["record_of"], told["key"]["rank"])
    verdicts = [json.loads((each / "verdict.json").read_text()) for each in (first, second)]
    assert [[one.who.rank] for one in found] == [
        [told["rank"] for told in each["history"]] for each in verdicts
    ]
    about = [{**each, "sentence": "", "history": []} for each in verdicts]
    assert about[0] == about[1], "one record has one verdict"
    assert [] == list(first.parent.glob(".*"))


def test_a_diagnosis_knows_where_nodes_stand(watching, cycles, prometheus, monkeypatch):
    prometheus.leaf = {"node-1": "leaf-a"}
    told, diagnose = [], diagnoses.diagnose
    monkeypatch.setattr(diagnoses, "diagnose", lambda run: told.append(run.meta) or diagnose(run))

    cycles(watching(None), 1)

    assert [{"topology": {"node-1": {"leaf": "leaf-a"}}}] == told


def test_hooks_that_fail_do_not_end_the_watching(watching, cycles, prometheus, caplog):
    watch = watching(None)
    watch.on_change.append(lambda *_: 1 / 0)

    assert 3 == len(cycles(watch, 3))
    assert 3 == sum("not handed on" in record.getMessage() for record in caplog.records)


def test_the_loop_ends_when_it_is_told(watching, prometheus):
    watch, ended = watching(None), threading.Event()
    thread = threading.Thread(target=watch.run, args=(ended,))
    watch.on_change.append(lambda *_: ended.set())

    thread.start()
    thread.join(30.0)

    assert not thread.is_alive()


def test_a_run_that_a_scheduler_ends_is_told_for_the_record_and_leaves_nothing_open(
    watching, cycles, prometheus, tmp_path
):
    watch = watching()
    prometheus.slow = (2, 1.5, prometheus.now)
    slow = opened(cycles(watch, 9))
    prometheus.ended, prometheus.killed = prometheus.now + 20.0, 2
    prometheus.said = lambda rank: "running"

    changes = cycles(watch, 5)

    assert [one.folder for one in slow] == [one.folder for one in closed(changes)]
    assert "the run ended at" in closed(changes)[0].ending
    found = opened(changes)
    assert 1 == len(found)
    assert "ended without a clean close" in found[0].sentence or found[0].who.rank is not None
    assert watch.wait(60.0)
    folder = tmp_path / "out" / slow[0].folder
    told = json.loads((folder / "finding.json").read_text())
    assert told["closed"] is not None
    assert told["lost_seconds"] > 0
    assert "It is over after" in told["sentence"]
    verdict = json.loads((folder / "verdict.json").read_text())
    assert verdict["history"][0]["changed"][-1].startswith("it was over at ")
    assert told["lost_seconds"] / 3600.0 == pytest.approx(verdict["lost_gpu_hours"])
    assert "It was over at" in (folder / "report.html").read_text()

"""Past runs in the folder of an archive: told of its culprits, never read without one."""

from dataclasses import replace

import numpy as np

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.read.verdicts import Past, PastCulprit, PastRun
from lockstep.analyzer.verdict.pipeline import Diagnosis
from lockstep.commands.analyze import table
from lockstep.diagnose import recurrence
from tests.analyzer.conftest import Synthetic

END = 1_760_000_000.0


def _diagnosed(verdict, emulated=False):
    run = Synthetic(steps=30, telemetry=False).run()
    run = replace(run, meta={**run.meta, "emulated_nodes": emulated})
    grid = replace(align(run), end=np.full(30, END))
    return Diagnosis(run, grid, (), verdict)


def _known(monkeypatch, **counts):
    culprit = PastCulprit("node-2", "GPU-2", "thermal", False)
    nodes, uuids = frozenset({"node-2", "node-3"}), frozenset({"GPU-2", "GPU-3"})
    one = PastRun("run-1", END - 3600, False, nodes, uuids, (culprit,))
    found = Past((one,), **counts)
    monkeypatch.setattr("lockstep.analyzer.read.verdicts.siblings", lambda _: found)


def test_the_table_tells_how_often_a_culprit_was_one_before(
    verdict, culprit, monkeypatch, tmp_path
):
    _known(monkeypatch)
    told = recurrence.with_recurrence(_diagnosed(verdict("degraded", culprit())), tmp_path).verdict

    assert ["gpu", "node"] == [one["by"] for one in told.recurrence]
    assert "before:\n  GPU GPU-2 was a culprit in 1 of the 1 runs" in table(told)


def test_archives_that_cannot_be_read_are_counted_as_missing(
    verdict, culprit, monkeypatch, tmp_path
):
    _known(monkeypatch, skipped=3, left_out=2)
    told = recurrence.with_recurrence(_diagnosed(verdict("degraded", culprit())), tmp_path).verdict

    assert "3 past runs in the same folder cannot be read" in told.missing
    assert "2 older folders beside this run were not looked at" in told.missing


def test_without_a_culprit_nothing_is_read(verdict, monkeypatch, tmp_path):
    monkeypatch.setattr("lockstep.analyzer.read.verdicts.siblings", lambda _: 1 / 0)
    healthy = _diagnosed(verdict("healthy"))

    assert healthy is recurrence.with_recurrence(healthy, tmp_path)

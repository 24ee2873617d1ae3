"""GPUs that are given by hand: their hardware is read, and judged with less confidence."""

import numpy as np
import pytest

from lockstep.analyzer.hardware.anomalies.uninstrumented import uninstrumented
from lockstep.analyzer.read.prometheus.access import RequestError, access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.hardware import gpu_list, hardware
from tests.analyzer.hardware.anomalies.conftest import Hardware

JOB = "node-0:0-3,node-1:0-3"


@pytest.fixture
def recorded(fake, stored):
    """Three nodes, of which a GPU of the second is hot and its job's peers wait since."""
    fleet = Hardware(nodes=3).hot(5, since=30).wait(5, since=30)
    fleet.gpus["lockstep_gpu_up", ""] = np.ones((fleet.bins, 12))
    fleet.gpus["lockstep_gpu_utilization_ratio", ""][:, 8:] = 0.8
    fake.series = stored(fleet.samples(), "", 0)
    fake.end = str(fleet.samples()["time"].max())
    return fake


def _read(fake, gpus, since=None):
    with Connection(access(fake.url, {})) as connection:
        return hardware(connection, gpu_list(gpus), since, fake.end)


def test_gpus_are_written_as_ranges_and_lists():
    assert (("a-1", 0), ("a-1", 1), ("a-1", 5), ("b", 7)) == gpu_list("a-1:0-1,5,b:7,a-1:0")


@pytest.mark.parametrize("text", ["", "a", "a:", "a:x", "0-3", "a:0,,b:1", "a:-1"])
def test_what_is_no_gpu_is_refused(text):
    with pytest.raises(RequestError, match="is no GPU; write them as node-1:0-7"):
        gpu_list(text)


@pytest.mark.parametrize("text", ["a:3-1", "a:0-9999"])
def test_a_range_counts_up_and_ends(text):
    with pytest.raises(RequestError, match="must count up, to 1023 at most"):
        gpu_list(text)


def test_the_nodes_of_the_job_are_read_and_their_hot_gpu_is_named(recorded):
    samples = _read(recorded, JOB)
    verdict = uninstrumented(JOB, samples, gpu_list(JOB))

    assert {"node-0", "node-1"} == set(samples["node"])
    assert [("node-1", 1, "thermal")] == [(e.node, e.gpu, e.cause) for e in verdict.culprits]
    assert verdict.culprits[0].confidence >= 0.9


def test_nodes_that_nobody_tells_of_are_told_with_those_that_are_there(recorded):
    with pytest.raises(RequestError, match=r"no GPU of node-9 then; it has GPUs of node-0:9410"):
        _read(recorded, "node-9:0")


def test_a_time_that_ends_before_it_begins_is_refused(recorded):
    with pytest.raises(RequestError, match="--since is not before --until"):
        _read(recorded, JOB, since=str(float(recorded.end) + 10))

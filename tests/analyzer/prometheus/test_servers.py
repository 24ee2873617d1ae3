"""Who answers, and what is done where that one answers otherwise than Prometheus."""

import numpy as np
import pytest

from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.read.prometheus.servers import server
from tests.analyzer.prometheus.fake import NOW

TIMES = np.asarray([NOW - 30, NOW - 15, NOW - 1]) * 1000


@pytest.mark.parametrize(
    ("build", "time", "name"),
    [
        ({"version": "2.42.0", "goVersion": "go1.19"}, [1.0, "1"], "Prometheus"),
        ({}, [{"metric": {}, "value": [1.0, "1"]}], "VictoriaMetrics"),
        ({"version": "2.24.0"}, [{"metric": {}, "value": [1.0, "1"]}], "VictoriaMetrics"),
        ({"application": "Grafana Mimir", "version": "2.10.0"}, [1.0, "1"], "Grafana Mimir"),
        ({"version": "0.34.1", "goVersion": "go1.21"}, [1.0, "1"], "Thanos"),
        ({}, [1.0, "1"], "a server with Prometheus' HTTP API"),
    ],
)
def test_a_server_is_known_by_what_it_says(build, time, name):
    assert name == server(build, time).name


@pytest.mark.parametrize(("victoria", "values"), [(True, [1.0, 1.0]), (False, [1.0, 1.0, np.nan])])
def test_the_end_of_a_series_is_no_sample_of_it(fake, victoria, values):
    fake.victoria = victoria
    labels = {"__name__": "lockstep_rank_up", "job": "lockstep", "instance": "n:9410"}
    fake.series = [(labels, TIMES.astype(np.int64), np.asarray([1.0, 1.0, np.nan]))]
    with Connection(access(fake.url, {})) as connection:
        (found,) = connection.samples("lockstep_rank_up{}[60000ms]", NOW)

    np.testing.assert_array_equal(values, found.values)


@pytest.mark.parametrize("victoria", [True, False])
def test_both_tell_the_time(fake, victoria):
    fake.victoria = victoria
    with Connection(access(fake.url, {})) as connection:
        assert NOW == connection.now()

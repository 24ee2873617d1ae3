"""Push-down at 100,000 GPUs: the reader on answers of that size, and the rules in real Prometheus.

The reader asks a stand-in that answers what a Prometheus with 100,000 ranks in 1,024 strata would:
every stratum's levels, and as many suspects as it asks for. The rules run in the Prometheus of this
machine over as many ranks as it holds (LOCKSTEP_BENCH_RANKS, 10,000); what 100,000 would take is
that times the ratio of the ranks, an extrapolation and so named. A pass is the longest of the six
groups of rules and the reader's queries, in CPU seconds of Prometheus: its wall time where there is
a core for each group. The rules of all groups together are what Prometheus spends every 15 s.
"""

import os
import resource
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from lockstep.analyzer.read.prometheus.access import access
from lockstep.analyzer.read.prometheus.connection import Connection
from lockstep.analyzer.rules.recording_rules.survey import survey
from tests.benchmarks.recording_rules_answers import RANKS, answering
from tests.benchmarks.recording_rules_prometheus import rules_at_work

GOALS = {
    "survey_100k_wall_seconds": 60.0,
    "pass_100k_extrapolated_seconds": 60.0,
    "rules_100k_extrapolated_cpu_seconds": 60.0,
}
EVERY = 100_000


def main() -> dict[str, float]:
    figures = _reader()
    ranks = int(os.environ.get("LOCKSTEP_BENCH_RANKS", "10000"))
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        figures |= rules_at_work(Path(folder), ranks)
    larger = EVERY / ranks
    figures["rules_100k_extrapolated_cpu_seconds"] = figures["rules_cpu_seconds"] * larger
    # Groups are evaluated beside each other, the reader's queries one after the other.
    one_pass = figures["rules_longest_group_cpu_seconds"] + figures["survey_real_cpu_seconds"]
    figures["pass_100k_extrapolated_seconds"] = one_pass * larger
    return figures


def _reader() -> dict[str, float]:
    with answering() as (url, sent), Connection(access(url, {})) as connection:
        wall, cpu = perf_counter(), process_time()
        found = survey(connection, None, 1_760_000_000.0)
        wall, cpu = perf_counter() - wall, process_time() - cpu
    assert sum(one.expected for one in found.answered.values()) == RANKS
    return {
        "survey_100k_wall_seconds": wall,
        "survey_100k_cpu_seconds": cpu,
        "survey_100k_megabytes": sum(sent) / 1e6,
        "survey_100k_suspects": len(found.suspects),
        "reader_peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }

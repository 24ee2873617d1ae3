"""What it costs to read NCCL Inspector's files: 20,000 lines a second of eight ranks.

LOCKSTEP_BENCH_SECONDS shortens the run (30 s, a reading a second; the clock is not waited for).
"""

import itertools
import os
import statistics
import tempfile
import time
from pathlib import Path

from lockstep.collector.__main__ import answer_quickly
from lockstep.collector.clock import SystemClock
from lockstep.collector.samples import nccl
from lockstep.collector.sources.nccl.inspector.source import NcclInspector

LINES_PER_SECOND, RANKS = 20_000, 8
SECONDS = int(os.environ.get("LOCKSTEP_BENCH_SECONDS", "30"))
WARM_UP = 3
GOALS = {"cpu_percent_at_20_000_lines_a_second": 5.0, "grown_mb": 2.0}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_FACTORS = {"AllReduce": 1.75, "AllGather": 0.875, "ReduceScatter": 0.875}


def main() -> dict[str, float]:
    """CPU time of the median reading, each finding a second's lines; and of lines with traces."""
    answer_quickly()  # as the program does
    plain = _measured(LINES_PER_SECOND, verbose=False)
    traced = _measured(LINES_PER_SECOND // 10, verbose=True)
    return plain | {"traced_microseconds_a_line": traced["microseconds_a_line"]}


def line(number: int, rank: int, *, verbose: bool = False) -> str:
    """A line as Inspector writes it, bandwidths included."""
    coll = tuple(_FACTORS)[number % 3]
    size, time_us = 1 << 16 + number % 12, 50 + number * 7919 % 3000
    whole = size if coll == "AllReduce" else 8 * size
    algorithm = whole / time_us / 1e3
    traces = "" if not verbose else (
        ',"event_trace_sn":{"coll_start_sn":1,"coll_stop_sn":2,"kernel_events":['
        + ",".join(
            f'{{"channel_id":{channel},"kernel_start_sn":3,"kernel_stop_sn":48,'
            '"kernel_record_sn":47}' for channel in range(16)
        ) + "]}"
    )  # fmt: skip
    return (
        f'{{"header":{{"id":"0x7f8c496ae9f661","comm_name":"dp","rank":{rank},"n_ranks":8,'
        '"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"",'
        f'"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{1748030377748202 + number}'
        f',"hostname":"example-hostname","pid":{1000 + rank}}},"coll_perf":{{"coll":"{coll}",'
        f'"coll_sn":{number // 3},"coll_msg_size_bytes":{size},"coll_exec_time_us":{time_us},'
        f'"coll_timing_source":"kernel_gpu","coll_algobw_gbs":{algorithm:.6f},'
        f'"coll_busbw_gbs":{algorithm * _FACTORS[coll]:.6f}{traces}}}}}\n'
    )


def _measured(lines: int, *, verbose: bool) -> dict[str, float]:
    each = lines // RANKS
    numbers = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        files = [
            (Path(folder) / f"example-hostname-pid{1000 + rank}.log").open("w")
            for rank in range(RANKS)
        ]
        source = NcclInspector([Path(folder)], Path("/proc"), SystemClock(), list)
        source.available()
        spent: list[float] = []
        resident = 0.0
        for second in range(WARM_UP + SECONDS):
            block = [next(numbers) for _ in range(each)]
            for rank, file in enumerate(files):
                file.write("".join(line(number, rank, verbose=verbose) for number in block))
                file.flush()
            if second == WARM_UP:
                spent, resident = [], _resident()
            began = time.thread_time()
            source.available()
            reading = source.read()
            samples = tuple(nccl.collect_inspector(reading))
            spent.append(time.thread_time() - began)
        assert not reading.rejected, reading.rejected[0]
        assert not reading.gaps
        met = sum(sum(one.counts) for one in reading.operations)
        assert met == each * RANKS * (WARM_UP + SECONDS), met
        for file in files:
            file.close()
    median = statistics.median(spent) / (each * RANKS)
    return {
        "cpu_percent_at_20_000_lines_a_second": 100 * median * LINES_PER_SECOND,
        "microseconds_a_line": 1e6 * median,
        "grown_mb": _resident() - resident,
        "series": float(len(samples)),
    }


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES / 1e6

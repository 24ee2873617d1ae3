""""""

import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract import ring
from lockstep.collector.contract.metric_rows.alerted import XID_ZEROS
from lockstep.collector.contract.metrics import MAX_SERIES_PER_RANK
from lockstep.collector.contract.words import GROUPS, Means
from lockstep.collector.samples import ranks, simulated_gpu
from lockstep.collector.sources.gpu.simulated import SimulatedReading
from lockstep.collector.sources.ranks.source import RankRings
from tests.wild import wild


@pytest.fixture
def collected(machine):
    machine.process(100)

    def collect(*images):
        for one in images:
            machine.ring(one)
        reading = RankRings(machine.rings, machine.proc, machine.clock).read()
        return {
            (s.metric.name, s.labels): s.value
            for s in ranks.collect_ranks(reading)
            if "rank" in s.metric.labels
        }

    return collect


def test_counters_are_in_seconds(collected, image):
    values = collected(image(steps=10))

    assert values[m.TRAIN_STEPS.name, ("gpt-1", "0")] == 10
    assert values[m.TRAIN_OWN.name, ("gpt-1", "0")] == 0.25
    assert values[m.TRAIN_COLLECTIVE.name, ("gpt-1", "0", "dp")] == 0.15
    assert values[m.TRAIN_PROGRESS_AGE.name, ("gpt-1", "0")] == 0.125
    assert values[m.TRAIN_HEARTBEAT_AGE.name, ("gpt-1", "0")] == 0.25
    assert values[m.TRAIN_ROUND_TRIP.name, ("gpt-1", "0")] == 0.00025


def test_a_round_trip_that_nobody_knows_is_absent(collected, image):
    assert m.TRAIN_ROUND_TRIP.name not in {name for name, _ in collected(image(round_trip_ns=0))}


@pytest.mark.parametrize("trip", [-1, 1 << 62])
def test_a_ring_with_a_round_trip_that_tcp_never_waits_is_left_out(collected, image, trip):
    assert {} == collected(image(round_trip_ns=trip))


def test_a_rank_has_at_most_45_series_with_all_groups_and_every_source(collected, image):
    names = Counter(
        name for name, _ in collected(image(used=len(GROUPS), open=(15, 1, round(999e9))))
    )

    from_other_sources = {m.RANK_THROTTLED, m.RANK_RUN_QUEUE, m.GPU_ALLOCATION_INFO}
    assert MAX_SERIES_PER_RANK == names.total() + len(from_other_sources)
    assert {each.name for each in ranks.GIVE_WAY} == {
        name
        for name, metric in m.METRICS.items()
        if name.startswith(("lockstep_train_", "lockstep_rank_"))
        and metric not in {*from_other_sources, m.RANK_LAST_STATE, m.TRAIN_VALUE}
        and name not in names
    }


def exchange(*, plain=8, left_out=0, peers=((100, 1, 1),), sizes=(4, 2, 4)):
    groups = ((0xAB, 10_000, sizes[0], 0), (7, 3, sizes[1], 0), (9, 0, sizes[2], 1))
    told = tuple(ring.ExchangeGroup(*each) for each in groups)
    others = tuple(ring.ExchangePeer(*each) for each in peers)
    return ring.Exchange(8, plain, left_out, told, others)


@pytest.mark.parametrize(("plain", "only"), [(8, "true"), (7, "false")])
def test_with_whom_a_rank_exchanges_data_is_told_without_groups_of_a_few_numbers(
    collected, image, plain, only
):
    told = [labels[2:] for name, labels in collected(image(exchange=exchange(plain=plain)))
            if name == m.RANK_EXCHANGE_INFO.name]  # fmt: skip

    assert [("000000000009:4,0000000000ab:4", "1", only)] == told


@pytest.mark.parametrize("wrong", [
    {"left_out": 1}, {"plain": 9}, {"peers": ((100, 4, 1),)}, {"sizes": (5, 2, 4)},
])  # fmt: skip
def test_exchanges_that_are_not_all_there_or_cannot_be_are_absent_and_nothing_else(
    collected, image, wrong
):
    names = [name for name, _ in collected(image(exchange=exchange(**wrong)))]

    assert names == [name for name, _ in collected(image())]


def test_groups_that_were_never_used_are_absent(collected, image):
    values = collected(image(used=2))

    assert {labels[2] for name, labels in values if name == m.TRAIN_COLLECTIVES.name} == {
        "world",
        "dp",
    }


def test_a_group_outside_the_contract_is_not_exported(collected, image):
    values = collected(image(groups=("world", "my-group"), used=2))

    assert not [labels for _, labels in values if "my-group" in labels]


def test_a_loss_that_is_not_there_is_absent(collected, image):
    assert m.TRAIN_LOSS.name not in {name for name, _ in collected(image(loss=math.nan))}


def test_what_the_program_logs_is_there_by_name_and_what_is_no_number_is_absent(collected, image):
    told = ((b"grad_norm", 1.5), (b"reward", -2.0), (b"later", math.nan), (b"big", math.inf))
    shown = {labels[2]: value for (name, labels), value in collected(image(values=told)).items()
             if name == m.TRAIN_VALUE.name}  # fmt: skip

    assert {"grad_norm": 1.5, "reward": -2.0} == shown


def test_own_values_give_way_to_what_verdicts_need(collected, image):
    told = tuple((b"own_%d" % place, 1.0) for place in range(8))
    many = [name for name, _ in collected(image(used=len(GROUPS), values=told))]
    few = [name for name, _ in collected(image(used=2, values=told))]

    assert (0, 8) == (many.count(m.TRAIN_VALUE.name), few.count(m.TRAIN_VALUE.name))
    assert len(few) + 3 <= MAX_SERIES_PER_RANK


@pytest.mark.parametrize("told", [
    ((b"twice", 1.0), (b"twice", 2.0)), ((b"\xff\xfe", 1.0),), ((b"a\nb", 1.0),),
])  # fmt: skip
def test_a_ring_with_names_that_no_writer_of_ours_makes_is_left_out(collected, image, told):
    assert {} == collected(image(values=told))


def test_a_rank_on_a_cpu_has_empty_gpu_and_uuid(collected, image):
    values = collected(image(gpu=-1, uuid=""))

    (info,) = [labels for name, labels in values if name == m.RANK_INFO.name]
    assert dict(zip(m.RANK_INFO.labels, info, strict=True)) | {"gpu": "", "uuid": ""} == dict(
        zip(m.RANK_INFO.labels, info, strict=True)
    )


@pytest.mark.parametrize(("tag", "told"), [(Means.LOG, "log"), ("bucket.0", "")])
def test_a_rank_of_a_foreign_program_says_how_its_steps_are_known(collected, image, tag, told):
    values = collected(image(tags=(tag, Means.SDK)))

    (info,) = [labels for name, labels in values if name == m.RANK_INFO.name]
    assert told == dict(zip(m.RANK_INFO.labels, info, strict=True))["steps_by"]


def test_a_gone_rank_keeps_its_sequences_and_its_last_word_and_nothing_else(collected, image):
    silent = image(pid=101, heartbeat_ns=round(990e9))
    names = Counter(name for name, _ in collected(silent))

    assert names == {
        m.RANK_INFO.name: 1,
        m.RANK_UP.name: 1,
        m.RANK_LAST_STATE.name: 1,
        m.TRAIN_ENQUEUED.name: 2,
        m.TRAIN_COMPLETED.name: 2,
    }


def test_an_age_is_never_below_zero(collected, image):
    values = collected(image(progress_ns=round(1000.5e9)))

    assert values[m.TRAIN_PROGRESS_AGE.name, ("gpt-1", "0")] == 0


def test_an_age_by_another_clock_is_absent(collected, image):
    names = {name for name, _ in collected(image(progress_ns=round(2e12), heartbeat_ns=1 << 62))}

    assert not names & {m.TRAIN_PROGRESS_AGE.name, m.TRAIN_HEARTBEAT_AGE.name}
    assert m.RANK_UP.name in names


def test_a_record_in_progress_leaves_the_heartbeat(collected, image):
    names = {name for name, _ in collected(image(guard=1))}

    assert names == {
        m.RANK_INFO.name,
        m.RANK_UP.name,
        m.TRAIN_HEARTBEAT_AGE.name,
        m.TRAIN_ROUND_TRIP.name,
    }


def test_counters_only_grow_while_steps_are_taken(collected, image):
    before = collected(image(steps=10))
    after = collected(image(steps=11, completed=24, enqueued=25))

    counters = {name for name, metric in m.METRICS.items() if metric.kind is m.Kind.COUNTER}
    assert all(after[key] >= value for key, value in before.items() if key[0] in counters)


def test_a_simulated_gpu_says_so_and_zero_is_a_value(gpu_state):
    samples = list(simulated_gpu.collect(SimulatedReading((gpu_state(utilization_ratio=0.0),), ())))

    values = {(s.metric.name, s.labels): s.value for s in samples}
    assert values[m.GPU_UTILIZATION.name, ("0", "GPU-0")] == 0.0
    who = ("0", "GPU-0", "Simulated H100", "simulated", "true")
    assert values[m.GPU_INFO.name, who + ("",) * (len(m.GPU_INFO.labels) - len(who))] == 1
    assert values[m.GPU_CLOCK_EVENT_ACTIVE.name, ("0", "GPU-0", "hw_thermal")] == 1
    assert values[m.GPU_CLOCK_EVENT_ACTIVE.name, ("0", "GPU-0", "sw_power_cap")] == 0
    assert (m.GPU_CLOCK_EVENT_SECONDS.name, ("0", "GPU-0", "hw_slowdown")) not in values


def test_what_procfs_did_not_answer_is_absent(machine):
    from lockstep.collector.samples import host
    from lockstep.collector.sources.host.procfs import Procfs

    machine.host()
    reading = replace(Procfs(machine.proc).read(), cpu_seconds=None, memory=None)

    names = {sample.metric.name for sample in host.collect_host(reading)}

    assert m.HOST_CPU.name not in names
    assert m.HOST_MEMORY_TOTAL.name not in names
    assert m.HOST_LOAD.name in names


def test_a_simulated_gpu_tells_0_of_each_xid_that_an_alert_waits_for(gpu_state):
    state = gpu_state(xid_errors={"79": 1.0}, xid_last={"79": 1.75e9})
    samples = simulated_gpu.collect(SimulatedReading((state,), (), (state,)))
    told = {s.labels[3]: s.value for s in samples if s.metric is m.GPU_XID_ERRORS}

    assert {xid: 0 for xid, _ in XID_ZEROS} | {"79": 1.0} == told


# What nvidia-smi told of real GPUs lies in the ranges of the metrics that tell the same.

PLAIN = [
    "linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt",
    "linux-x86_64__nvidia-h100-mig__590.48.01.txt", "linux-x86_64__nvidia-h200__590.48.01.txt",
    "linux-x86_64__nvidia-l40s__595.80.txt", "a100-sxm4-v12.xml", "a10g.xml",
]  # fmt: skip
_VALUE = re.compile(
    r"(?:^\s*(?P<name>[A-Za-z.() ]+?)\s+: |<(?P<tag>[a-z_]+)>)"
    r"(?P<value>-?[0-9.]+) (?P<unit>C|W|MHz|MiB|%)\s*(?:$|<)",
    re.MULTILINE,
)
_BASE = {"C": 1, "W": 1, "MHz": 1e6, "MiB": 1 << 20, "%": 0.01}


def metric(name: str, unit: str) -> m.Metric:
    """Which of ours tells what a line of nvidia-smi does."""
    if unit == "C":
        margin = "T.Limit" in name or "tlimit" in name
        return m.GPU_TEMPERATURE_LIMIT_MARGIN if margin else m.GPU_TEMPERATURE
    return {"W": m.GPU_POWER, "MHz": m.GPU_CLOCK, "MiB": m.GPU_MEMORY_TOTAL,
            "%": m.GPU_UTILIZATION}[unit]  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_what_a_real_gpu_tells_is_plausible(name):
    found = list(_VALUE.finditer(wild(f"nvidia_smi/{name}").read_text()))
    outside = [
        each[0].strip() for each in found
        if not metric(each["name"] or each["tag"], each["unit"]).within.holds(
            float(each["value"]) * _BASE[each["unit"]]
        )
    ]  # fmt: skip

    assert [] == outside
    assert {"C", "W", "MHz", "MiB"} <= {each["unit"] for each in found}

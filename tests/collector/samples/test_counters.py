import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.config import ConfigError
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import METRICS, Kind
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sampler.state import StateFile
from lockstep.collector.samples.counters import (
    HELD_READINGS,
    ON_THE_BOARD,
    WRAPS,
    Counter,
    Counters,
    Falls,
    after_reboot,
)


def told(falls: Falls, *raws: float) -> list[float]:
    counters = Counters(falls)
    return [counters.through([m.GPU_ENERGY(raw, "0", "u")])[0].value for raw in raws]


@pytest.mark.parametrize(
    ("falls", "values"),
    [
        (Falls.TOLD, [10, 9, 1, 3]),
        (Falls.HOLD, [10, 10, 1, 3]),
        (Falls.CARRY, [10, 19, 20, 22]),
    ],
)
def test_what_a_fall_means_is_told_by_the_feed(falls, values):
    assert values == told(falls, 10, 9, 1, 3)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 1000), min_size=2))
def test_a_carried_counter_grows_by_exactly_what_its_source_counted(raws):
    values = told(Falls.CARRY, *raws)

    growth = [after - before if after >= before else after for before, after in pairwise(raws)]
    assert growth == [after - before for before, after in pairwise(values)]


def test_what_is_told_no_more_is_forgotten_before_what_is(monkeypatch):
    monkeypatch.setattr("lockstep.collector.samples.counters.MAX_COUNTERS", 3)
    counters = Counters(Falls.CARRY)

    def energy(raw: float, *parts: str) -> list[float]:
        samples = [m.GPU_ENERGY(raw, "0", uuid) for uuid in ("GPU-a", *parts)]
        return [sample.value for sample in counters.through(samples)]

    energy(100)
    energy(1)
    for number in range(5):
        energy(1, f"MIG-{number}")

    assert [102] == energy(2)
    assert 3 == len(counters.kept())


def test_a_reset_after_few_counts_loses_none():
    assert [4, 7, 8] == told(Falls.CARRY, 4, 3, 4)


@settings(max_examples=100)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=200))
def test_a_held_counter_falls_only_to_less_than_half(raws):
    values = told(Falls.HOLD, *raws)

    assert all(2 * after < before for before, after in pairwise(values) if after < before)


def test_noise_that_does_not_end_does_not_freeze_a_counter():
    raws = [100.0, *(90.0 + 0.1 * count for count in range(HELD_READINGS)), 97.0]
    values = told(Falls.HOLD, *raws)

    assert [100.0] * (HELD_READINGS + 1) == values[:-1]
    assert 100 + 97 - raws[-2] == pytest.approx(values[-1])


def test_what_was_added_to_a_held_counter_outlives_a_restart():
    counters = Counters(Falls.HOLD)
    for raw in (100.0, *[90.0] * HELD_READINGS):
        (sample,) = counters.through([m.HOST_CPU(raw, "iowait")])
    counters.through([m.HOST_CPU(5.0, "idle")])
    after = Counters(Falls.HOLD)
    after.resume(counters.kept())

    assert {(m.HOST_CPU.name, ("iowait",)): Counter(90.0, 10.0)} == counters.kept()
    assert (sample,) == after.through([m.HOST_CPU(90.0, "iowait")])


def test_a_counter_of_32_bits_wraps_from_its_top_to_its_bottom():
    def replays(*raws: float) -> list[float]:
        counters = Counters(Falls.CARRY)
        return [counters.through([m.GPU_PCIE_REPLAY(raw, "0", "u")])[0].value for raw in raws]

    assert [2**32 - 10, 2**32 + 5] == replays(2**32 - 10, 5)
    assert [2**31, 2**31 + 5] == replays(2**31, 5)  # in the middle: a reset


def test_wraps_and_what_the_board_keeps_are_counters_of_the_contract():
    assert {METRICS[name].kind for name in {*WRAPS, *ON_THE_BOARD}} == {Kind.COUNTER}
    assert all("counter" in METRICS[name].labels for name in ON_THE_BOARD)


def test_an_absent_value_is_no_fall():
    assert [1, 3] == [value for value in told(Falls.CARRY, 1, math.nan, 3) if value == value]


def test_gauges_pass():
    counters = Counters(Falls.CARRY)

    assert [5, 3] == [counters.through([m.GPU_POWER(v, "0", "u")])[0].value for v in (5, 3)]


KEPT = {"nvml": {("a_total", ("0", 'GPU-"x"\n')): Counter(1.5, 2.0)}}
WHO = ("0", "GPU-a")


@pytest.fixture
def boot(machine):
    """Begins a boot of this name, and opens the state file in it."""

    def begin(name: str | None) -> StateFile:
        path = machine.proc / "sys/kernel/random/boot_id"
        machine.file(path, name or "")
        return StateFile(machine.proc.parent / "state", machine.proc)

    return begin


def test_what_was_saved_is_loaded(boot):
    state = boot("one")
    assert {} == state.load()
    state.save(KEPT | {"procfs": {}})

    assert KEPT == boot("one").load()
    assert ["counters.json"] == [path.name for path in state.path.parent.iterdir()]


def test_after_a_reboot_volatile_counts_begin_anew_and_the_boards_go_on():
    volatile = (m.GPU_ECC_ERRORS.name, (*WHO, "corrected", "volatile"))
    board = (m.GPU_ECC_ERRORS.name, (*WHO, "corrected", "aggregate"))
    energy = (m.GPU_ENERGY.name, WHO)
    counters = Counters(Falls.CARRY)
    kept = {volatile: Counter(3, 1), board: Counter(50, 0), energy: Counter(1e6, 0)}
    counters.resume(after_reboot(kept))
    told = counters.through([
        m.GPU_ECC_ERRORS(7, *volatile[1]), m.GPU_ECC_ERRORS(57, *board[1]),
        m.GPU_ENERGY(2e6, *energy[1]),
    ])  # fmt: skip

    assert [3 + 1 + 7, 57, 3e6] == [sample.value for sample in told]


def test_the_last_word_of_a_boot_is_taken_over_by_the_next(boot):
    boot("one").save(KEPT, last_word=True)

    (key,) = KEPT["nvml"]
    assert {"nvml": {key: Counter(0, 3.5)}} == boot("two").load()


@pytest.mark.parametrize(("before", "now"), [("one", "two"), ("one", None), (None, None)])
def test_a_boot_that_ended_unheard_is_not_taken_over(boot, before, now):
    boot(before).save(KEPT, last_word=before is None)

    with pytest.raises(SourceError, match="is of a boot whose last counts are unknown"):
        boot(now).load()


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"schema_version": 1, "counters": {}}', "[" * 100_000,
        '{"schema_version": 2, "counters": {}}',
        *(
            f'{{"schema_version": 2, "boot_id": "one", "last_word": true, '
            f'"counters": {{"nvml": [{row}]}}}}'
            for row in (
                '["a", [1], 1, 2]', '["a", [], NaN, 2]', '["a", [], -1, 2]', '["a"]',
                f'["a", [], 1{"0" * 400}, 2]',
            )
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_named(boot, content):
    state = boot("one")
    state.path.write_text(content)

    with pytest.raises(SourceError, match="is not a state file"):
        state.load()


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path, machine):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be made: Not a directory"):
        StateFile(tmp_path / "file" / "state", machine.proc)


def test_a_sample_that_stays_the_same_keeps_what_was_counted_before_a_reset():
    counters = Counters(Falls.CARRY)
    fallen = m.GPU_ENERGY(3, "0", "u")
    other = m.GPU_ENERGY(5, "1", "w")
    told = [
        [one.value for one in counters.through(samples)]
        for samples in ([m.GPU_ENERGY(10, "0", "u")], [fallen], [fallen], [other, fallen], [fallen])
    ]

    assert [[10], [13], [13], [5, 13], [13]] == told


def test_what_was_remembered_of_before_a_restart_is_not_told_after_it():
    counters = Counters(Falls.CARRY)
    sample = m.GPU_ENERGY(10, "0", "u")
    counters.through([sample])
    counters.resume({(m.GPU_ENERGY.name, ("0", "u")): Counter(10, 5)})

    assert [15] == [one.value for one in counters.through([sample])]

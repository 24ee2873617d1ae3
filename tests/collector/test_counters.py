from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import ConfigError
from collector.contract import metrics as m
from collector.counters import Counter, Counters, Falls
from collector.reading import SourceError
from collector.state import StateFile


def told(falls: Falls, *raws: float) -> list[float]:
    counters = Counters(falls)
    return [counters.through([m.GPU_ENERGY(raw, "0", "u")])[0].value for raw in raws]


@pytest.mark.parametrize(
    ("falls", "values"),
    [
        (Falls.TOLD, [10, 9, 1, 3]),
        (Falls.HOLD, [10, 10, 1, 3]),
        (Falls.CARRY, [10, 10, 11, 13]),
    ],
)
def test_what_a_fall_means_is_told_by_the_feed(falls, values):
    assert values == told(falls, 10, 9, 1, 3)


@given(st.lists(st.integers(0, 1000), min_size=2))
def test_a_carried_counter_never_falls_and_never_grows_more_than_its_source(raws):
    values = told(Falls.CARRY, *raws)

    growth = sum(after - before if after >= before else after for before, after in pairwise(raws))
    assert values == sorted(values)
    assert values[-1] - values[0] <= growth


def test_gauges_pass():
    counters = Counters(Falls.CARRY)

    assert [5, 3] == [counters.through([m.GPU_POWER(v, "0", "u")])[0].value for v in (5, 3)]


KEPT = {"nvml": {("a_total", ("0", 'GPU-"x"\n')): Counter(1.5, 2.0)}}


def test_what_was_saved_is_loaded(tmp_path):
    state = StateFile(tmp_path / "state")
    assert {} == state.load()
    state.save(KEPT | {"procfs": {}})

    assert KEPT == StateFile(tmp_path / "state").load()
    assert ["counters.json"] == [path.name for path in (tmp_path / "state").iterdir()]


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"schema_version": 2, "counters": {}}', "[" * 100_000,
        '{"schema_version": 1, "counters": {"nvml": [["a", [1], 1, 2]]}}',
        '{"schema_version": 1, "counters": {"nvml": [["a", [], NaN, 2]]}}',
        '{"schema_version": 1, "counters": {"nvml": [["a", [], -1, 2]]}}',
        '{"schema_version": 1, "counters": {"nvml": [["a"]]}}',
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_named(tmp_path, content):
    state = StateFile(tmp_path)
    state.path.write_text(content)

    with pytest.raises(SourceError, match="is not a state file"):
        state.load()


def test_a_folder_that_cannot_be_made_is_a_wrong_setting(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be made: Not a directory"):
        StateFile(tmp_path / "file" / "state")

"""What is remembered, and in which file."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest

from lockstep.analyzer.hardware.sequential_test.false_alarms import Budget
from lockstep.analyzer.hardware.sequential_test.monitor import watch
from lockstep.analyzer.hardware.sequential_test.state import KEEP, State, aligned, restore, save
from lockstep.analyzer.hardware.sequential_test.streams import Streams

BUDGET = Budget(0.01, 15.0, 16)


@pytest.fixture
def state(fleet) -> State:
    return watch(fleet(), State.new(), BUDGET).state


def chosen(fleet, gpus, **changes):
    cut = {name: getattr(fleet, name)[gpus] for name in ("node", "uuid", "gpu", "stratum")}
    return replace(fleet, values=fleet.values[:, :, gpus], **cut, **changes)


def renamed(names, place, name):
    found = names.copy().astype("U32")
    found[place] = name
    return found


def test_state_comes_back_from_its_file_as_it_was(state, tmp_path):
    save(state, tmp_path / "state.npz")
    found, why = restore(tmp_path / "state.npz")
    assert why is None
    assert state.until == found.until
    assert state.node.tolist() == found.node.tolist()
    for field in fields(Streams):
        np.testing.assert_array_equal(
            getattr(state.streams, field.name), getattr(found.streams, field.name)
        )
    assert ["state.npz"] == [path.name for path in tmp_path.iterdir()]


def test_failed_write_leaves_the_old_file(state, tmp_path, monkeypatch):
    save(state, tmp_path / "state.npz")
    old = (tmp_path / "state.npz").read_bytes()

    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        save(state, tmp_path / "state.npz")
    assert old == (tmp_path / "state.npz").read_bytes()
    assert ["state.npz"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.999])
def test_torn_file_is_refused_in_a_sentence_and_begins_empty(state, tmp_path, share):
    path = tmp_path / "state.npz"
    save(state, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    found, why = restore(path)
    assert 0 == len(found.node)
    assert why.startswith(f"{path} is no whole state of a fleet (")
    assert why.endswith("); every stream learns again what is normal")


def test_flipped_byte_is_refused(state, tmp_path):
    path = tmp_path / "state.npz"
    save(state, path)
    bytes_ = bytearray(path.read_bytes())
    bytes_[len(bytes_) // 2] ^= 0xFF
    path.write_bytes(bytes_)
    found, why = restore(path)
    assert (0, True) == (len(found.node), why is not None)


def test_foreign_files_are_refused(state, tmp_path):
    path = tmp_path / "state.npz"
    for write in (
        lambda file: np.savez(file, a=np.zeros(3)),
        lambda file: np.savez(file, format=np.array("another 2")),
        lambda file: np.save(file, np.zeros(3)),
        lambda file: np.savez(file, format=np.array([{"code": 1}], dtype=object)),
        lambda file: file.write(b"PAR1 not at all"),
    ):
        with path.open("wb") as file:
            write(file)
        found, why = restore(path)
        assert (0, True) == (len(found.node), "is no whole state of a fleet" in why)


def test_state_whose_arrays_do_not_fit_is_refused(state, tmp_path):
    path = tmp_path / "state.npz"
    streams = replace(state.streams, scale=state.streams.scale[:, :3])
    save(replace(state, streams=streams), path)
    assert "scale is float32 of (2, 3); it must be float32 of (2, 16)" in restore(path)[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("of_metrics", np.array("own")),
        ("of_metrics", np.array([["own"], ["clock"]])),
        ("of_node", np.array("node-0")),
        ("until", np.array([1.0, 2.0])),
        ("until", np.array(np.inf)),
        ("until", np.array(np.nan)),
    ],
)
def test_array_of_another_shape_or_a_time_that_never_comes_is_refused(state, tmp_path, name, value):
    path = tmp_path / "state.npz"
    save(state, path)
    with np.load(path) as file:
        arrays = dict(file) | {name: value}
    np.savez(path, **arrays)
    found, why = restore(path)
    assert (0, True) == (len(found.node), "is no whole state of a fleet" in why)


def test_state_that_judged_nothing_yet_comes_back(tmp_path):
    save(State.new(), tmp_path / "state.npz")
    assert restore(tmp_path / "state.npz")[1] is None


def test_absent_file_begins_empty_and_says_so(tmp_path):
    found, why = restore(tmp_path / "none")
    assert 0 == len(found.node)
    assert f"{tmp_path / 'none'} is not there yet; every stream learns what is normal" == why


def test_stream_that_comes_back_after_a_gap_goes_on(fleet, state):
    few = chosen(fleet(), np.arange(12), times=fleet().times + 4500)
    without = watch(few, state, BUDGET)
    assert "GPUs that were there in the last days and are no longer reported: 4" in without.missing
    back, words = aligned(without.state, replace(fleet(), times=fleet().times + 9000))
    assert () == words
    assert state.streams.centre[:, 12:].tolist() == back.streams.centre[:, 12:].tolist()


def test_vanished_gpus_are_forgotten_after_days(fleet, state):
    few = chosen(fleet(), np.arange(12), times=fleet().times + KEEP + 1)
    assert 12 == len(aligned(state, few)[0].node)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("uuid", "GPUs that are new and learn what is normal: 1"),
        ("node", "GPUs that are new and learn what is normal: 1"),
        ("stratum", "GPUs that have other peers than before and learn what is normal: 1"),
    ],
)
def test_other_card_node_or_peers_begin_anew(fleet, state, field, words):
    told = fleet()
    told = replace(told, **{field: renamed(getattr(told, field), 3, "other")})
    found, said = aligned(state, told)
    assert 0 == found.streams.count[0, 3]
    assert state.streams.count[0, 4] == found.streams.count[0, 4]
    assert words in said


def test_gpus_in_another_order_keep_their_past(fleet, state):
    turned = np.arange(16)[::-1]
    found, _ = aligned(state, chosen(fleet(), turned))
    assert state.streams.centre[:, turned].tolist() == found.streams.centre.tolist()


def test_unknown_metrics_begin_anew_and_known_ones_go_on(fleet, state):
    told = fleet()
    metrics = (replace(told.metrics[0], name="new"), told.metrics[0])
    found, _ = aligned(state, replace(told, metrics=metrics))
    assert [0.0, float(state.streams.count[0, 0])] == found.streams.count[:, 0].tolist()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e308, -1e308])
@pytest.mark.parametrize(
    "name", ["centre", "scale", "lag", "power", "last", "count", "evidence", "length", "excess",
             "onset", "alarmed", "seen"],
)  # fmt: skip
def test_a_number_that_cannot_be_begins_anew_and_opens_nothing(state, tmp_path, name, value):
    holder = state if name == "seen" else state.streams
    array = getattr(holder, name)
    with np.errstate(over="ignore"):
        array[...] = value
    save(state, tmp_path / "state.npz")
    found, why = restore(tmp_path / "state.npz")

    absent = name in ("last", "onset", "alarmed") and math.isnan(value)
    assert absent == (why is None)
    assert absent or (0,) == found.node.shape

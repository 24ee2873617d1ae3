"""Megatron's files: what is written is read, byte for byte; what is broken is named."""

from pathlib import Path
from struct import Struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lockstep.workloads.data.indexed import IndexedDataset, IndexedError, Samples, write
from lockstep.workloads.data.loader import Loader
from lockstep.workloads.data.prepare import CopySource, MarkovSource, write_synthetic

documents = st.lists(
    arrays(np.int64, st.integers(0, 20), elements=st.integers(0, 99)), min_size=1, max_size=8
)


@given(documents)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_documents_come_back_as_they_were(tmp_path: Path, written: list[np.ndarray]) -> None:
    write(tmp_path / "x", written, vocabulary=100)
    read = IndexedDataset(tmp_path / "x")

    assert [one.tolist() for one in written] == [
        read.tokens(index).tolist() for index in range(len(read))
    ]


def test_the_bytes_are_those_that_megatron_writes(tmp_path: Path) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3]), np.array([4])], vocabulary=100)
    header = b"MMIDIDX\x00\x00" + Struct("<QBQQ").pack(1, 8, 2, 3)
    tables = Struct("<2i2q3q").pack(3, 1, 0, 6, 0, 1, 2)

    assert header + tables == (tmp_path / "x.idx").read_bytes()
    assert Struct("<4H").pack(1, 2, 3, 4) == (tmp_path / "x.bin").read_bytes()


def test_a_large_vocabulary_takes_four_bytes_a_token(tmp_path: Path) -> None:
    write(tmp_path / "x", [np.array([70000])], vocabulary=100_000)

    assert 4 == (tmp_path / "x.bin").stat().st_size
    assert [70000] == IndexedDataset(tmp_path / "x").tokens(0).tolist()


def test_documents_of_several_sequences_are_read_whole(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(Struct("<5H").pack(1, 2, 3, 4, 5))
    tables = Struct("<3i3q3q").pack(2, 1, 2, 0, 4, 6, 0, 2, 3)
    (tmp_path / "x.idx").write_bytes(b"MMIDIDX\x00\x00" + Struct("<QBQQ").pack(1, 8, 3, 3) + tables)
    read = IndexedDataset(tmp_path / "x")

    assert [[1, 2, 3], [4, 5]] == [read.tokens(index).tolist() for index in range(2)]


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (0, b"X", "magic"),
        (9, b"\x02", "version is 2"),
        (17, b"\x07", "token type is 7"),
        (18, b"\x03", "3 sequences and 3 document bounds need"),
        (26, b"\x02", "2 document bounds need"),
        (34, b"\xff\xff\xff\xff", "length of sequence 0 is negative"),
        (34, b"\x02", "offset of sequence 1 is 6"),
        (42, b"\x02", "offset of sequence 0 is 2"),
        (58, b"\x01", "document bounds do not go from 0 to 2"),
    ],
)
def test_a_broken_index_names_the_field(
    tmp_path: Path, place: int, value: bytes, sentence: str
) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3]), np.array([4])], vocabulary=100)
    index = tmp_path / "x.idx"
    raw = bytearray(index.read_bytes())
    raw[place : place + len(value)] = value
    index.write_bytes(bytes(raw))

    with pytest.raises(IndexedError, match=sentence):
        IndexedDataset(tmp_path / "x")


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_change_of_the_index_is_refused_or_read_within_bounds(
    tmp_path: Path, data: st.DataObject
) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3]), np.array([4])], vocabulary=100)
    index = tmp_path / "x.idx"
    raw = bytearray(index.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    index.write_bytes(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    try:
        read = IndexedDataset(tmp_path / "x")
    except IndexedError:
        return

    assert sum(len(read.tokens(index)) for index in range(len(read))) <= 8


def test_tokens_that_are_cut_off_or_missing_are_named(tmp_path: Path) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3])], vocabulary=100)
    (tmp_path / "x.bin").write_bytes(b"\x01\x00")

    with pytest.raises(IndexedError, match=r"describes 6 bytes of tokens; the .bin has 2"):
        IndexedDataset(tmp_path / "x")
    with pytest.raises(IndexedError, match="cannot read"):
        IndexedDataset(tmp_path / "absent")


def test_a_token_outside_the_vocabulary_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(IndexedError, match="document 0 has a token outside 0 to 9"):
        write(tmp_path / "x", [np.array([10])], vocabulary=10)


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    write_synthetic(tmp_path / "x", MarkovSource(16, 1), 100, sequence=8, vocabulary=16)
    return Samples(IndexedDataset(tmp_path / "x"), 8, seed=1)


def test_an_epoch_has_every_token_once_and_the_next_another_order(samples: Samples) -> None:
    epochs = [samples.batch(epoch * samples.per_epoch, samples.per_epoch) for epoch in range(2)]

    # Samples overlap by the token that the one predicts and the next begins with.
    assert len(np.unique(epochs[0], axis=0)) > 0.9 * samples.per_epoch
    assert (epochs[0] != epochs[1]).any()


def test_the_order_depends_on_seed_and_place_alone(tmp_path: Path, samples: Samples) -> None:
    again = Samples(IndexedDataset(tmp_path / "x"), 8, seed=1)
    other = Samples(IndexedDataset(tmp_path / "x"), 8, seed=2)
    far = samples.batch(samples.per_epoch - 2, 4)  # across the border of two epochs

    assert (samples.batch(3, 4) == again.batch(3, 4)).all()
    assert (far == again.batch(samples.per_epoch - 2, 4)).all()
    assert (samples.batch(0, 4) != other.batch(0, 4)).any()


def test_a_sample_of_the_copy_source_holds_its_repetition(tmp_path: Path) -> None:
    write_synthetic(tmp_path / "x", CopySource(16, 1), 50, sequence=8, vocabulary=16)
    batch = Samples(IndexedDataset(tmp_path / "x"), 8, seed=1).batch(0, 40)

    assert (batch[:, :4] == batch[:, 4:8]).all()


def test_too_few_tokens_for_a_sample_are_named(tmp_path: Path) -> None:
    write(tmp_path / "x", [np.array([1, 2, 3])], vocabulary=100)

    with pytest.raises(IndexedError, match="3 tokens are too few for a sample of 9"):
        Samples(IndexedDataset(tmp_path / "x"), 8, seed=1)


def test_the_loader_gives_every_step_in_order_and_ends() -> None:
    loader = Loader(lambda step: np.array([[step]]), first=5)
    seen = [int(loader.next()[0, 0]) for _ in range(10)]
    loader.close()

    assert list(range(5, 15)) == seen
    assert not loader._thread.is_alive()


def test_what_goes_wrong_in_the_loader_is_raised_where_the_batch_is_wanted() -> None:
    def broken(step: int) -> np.ndarray:
        raise IndexedError("gone")

    loader = Loader(broken, first=0)
    with pytest.raises(IndexedError, match="gone"):
        loader.next()
    loader.close()

"""LIBSVM text is read number for number, in blocks, and a wrong line is named."""

import bz2
import gzip
import lzma
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.workloads.data import converted, libsvm
from lockstep.workloads.data.libsvm import LibsvmError, RowBlock, blocks
from lockstep.workloads.data.row_files import about
from lockstep.workloads.models.logreg import Rows
from lockstep.workloads.spec import DataError

FEATURES = 12


def text_of(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def whole(path: Path, features: int = FEATURES) -> RowBlock:
    read = list(blocks(path, features))
    starts = [np.zeros(1, np.int64)]
    for block in read:
        starts.append(block.starts[1:] + starts[-1][-1])
    return RowBlock(
        np.concatenate([block.labels for block in read]),
        np.concatenate(starts),
        np.concatenate([block.columns for block in read]),
        np.concatenate([block.values for block in read]),
    )


def as_bytes(block: RowBlock) -> tuple[bytes, ...]:
    arrays = block.labels, block.starts, block.columns, block.values
    return tuple(array.tobytes() for array in arrays)


def dense_lines(rows: int, features: int, seed: int = 1) -> tuple[list[str], bytes, bytes]:
    """Lines of text, and labels and float32 rows as bytes, by plain Python and struct."""
    dice = np.random.default_rng(seed)
    lines, labels, numbers = [], b"", b""
    for _ in range(rows):
        words = [f"{value:.8g}" for value in dice.standard_normal(features) / 45]
        label = int(dice.integers(2)) * 2 - 1
        pairs = " ".join(f"{place}:{word}" for place, word in enumerate(words, start=1))
        lines.append(f"{label:+d} {pairs}")
        labels += struct.pack("b", label)
        numbers += struct.pack(f"<{features}f", *map(float, words))
    return lines, labels, numbers


def test_dense_rows_are_read_byte_for_byte(tmp_path: Path) -> None:
    lines, labels, numbers = dense_lines(50, 40)
    read = list(blocks(text_of(tmp_path / "x", "\n".join(lines)), 40))

    assert labels == b"".join(block.labels.tobytes() for block in read)
    assert numbers == b"".join(block.dense(40).tobytes() for block in read)


def test_sparse_rows_are_read_number_for_number(tmp_path: Path) -> None:
    path = text_of(
        tmp_path / "x",
        "# a comment alone\n"
        "+1 1:0.5 12:-2e-3   # and one behind\n"
        "\n"
        "-1\n"
        "1\t3:.25\t4:7.\r\n"
        "  -1 2:+1.5",
    )
    read = whole(path)
    wanted = np.zeros((4, FEATURES), np.float32)
    wanted[0, 0], wanted[0, 11] = 0.5, -2e-3
    wanted[2, 2], wanted[2, 3] = 0.25, 7.0
    wanted[3, 1] = 1.5

    assert [1, -1, 1, -1] == read.labels.tolist()
    assert [0, 2, 2, 4, 5] == read.starts.tolist()
    assert [0, 11, 2, 3, 1] == read.columns.tolist()
    assert wanted.tobytes() == read.dense(FEATURES).tobytes()


def test_values_are_rounded_once_from_the_text_to_float64_to_float32(tmp_path: Path) -> None:
    words = ["0.1", "16777217", "1e-45", "1e-46", "3.4028234e38", "-0", "0.30000001192092896"]
    line = "1 " + " ".join(f"{place}:{word}" for place, word in enumerate(words, start=1))
    wanted = b"".join(struct.pack("<f", float(word)) for word in words)

    assert wanted == whole(text_of(tmp_path / "x", line)).values.tobytes()


@pytest.mark.parametrize(
    ("name", "pack"),
    [("x", bytes), ("x.bz2", bz2.compress), ("x.gz", gzip.compress), ("x.xz", lzma.compress)],
)
def test_compressed_files_are_the_same_rows(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    lines, labels, _ = dense_lines(5, FEATURES)
    path = text_of(tmp_path / name, pack("\n".join(lines).encode()))

    assert labels == whole(path).labels.tobytes()


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_the_size_of_a_block_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    lines, labels, numbers = dense_lines(9, FEATURES)
    path = text_of(tmp_path / "x", "# top\n\n" + "\n".join(lines) + "\n")
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", size)
    read = whole(path)

    assert labels == read.labels.tobytes()
    assert numbers == read.dense(FEATURES).tobytes()


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, _, _ = dense_lines(100, 100)
    path = text_of(tmp_path / "x", ("\n".join(lines) + "\n") * 40)
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 1 << 16)
    next(iter(blocks(path, 100)))  # what is imported at first use is no memory of the file
    tracemalloc.start()
    rows = sum(len(block.labels) for block in blocks(path, 100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert 4000 == rows
    assert peak < 12 * (1 << 16) < path.stat().st_size / 5


WORDS = st.text("0123456789.:-+eExn# \t", max_size=12)
GOOD = st.builds(
    lambda label, pairs: f"{label} " + " ".join(f"{i}:{v!r}" for i, v in sorted(pairs.items())),
    st.sampled_from(["+1", "-1", "1"]),
    st.dictionaries(st.integers(1, FEATURES), st.floats(-1e30, 1e30)),
)


@given(st.lists(st.one_of(GOOD, WORDS), min_size=1, max_size=6))
def test_the_fast_reading_accepts_and_gives_only_what_the_strict_one_does(
    lines: list[str],
) -> None:
    text = [line.translate(str.maketrans("\t", " ")).encode() for line in lines]
    text = [] if any(b"x" in line for line in text) else [t.partition(b"#")[0] for t in text]
    fast = libsvm._fast(text, FEATURES)

    if fast is not None:
        assert as_bytes(libsvm._slow(text, FEATURES)) == as_bytes(fast)


@given(st.lists(GOOD, min_size=1, max_size=6))
def test_rows_as_they_should_be_are_read_fast(lines: list[str]) -> None:
    fast = libsvm._fast([line.encode() for line in lines], FEATURES)

    assert fast is not None


BAD = [
    ("+1 1", "'1' is not INDEX:VALUE"),
    ("+1 one:1", "index 'one' is not a whole number from 1"),
    ("+1 0x1:1", "index '0x1' is not a whole number from 1"),
    ("+1 -3:1", "index '-3' is not a whole number from 1"),
    ("+1 0:1", "index 0 is too small; indices count from 1"),
    ("+1 13:1", "index 13 is too large; the model has 12 features"),
    ("+1 4294967297:1", "index 4294967297 is too large; the model has 12 features"),
    ("+1 2:1 2:1", "index 2 comes twice; each comes once"),
    ("+1 3:1 2:1", "index 2 follows 3; indices must increase"),
    ("+1 2:nan", "value 'nan' of index 2 is not a finite decimal number"),
    ("+1 2:-inf", "value '-inf' of index 2 is not a finite decimal number"),
    ("+1 2:1_0", "value '1_0' of index 2 is not a finite decimal number"),
    ("+1 2:", "value '' of index 2 is not a finite decimal number"),
    ("+1 2:1:3", "value '1:3' of index 2 is not a finite decimal number"),
    ("+1 2:1e39", "value '1e39' of index 2 is too large; float32 ends at 3.4e+38"),
    ("1:0.5 2:1", "label '1:0.5' is wrong; it must be -1 or +1, or 0 or 1"),
    ("2 1:1", "label '2' is wrong; it must be -1 or +1, or 0 or 1"),
    ("nan 1:1", "label 'nan' is wrong; it must be -1 or +1, or 0 or 1"),
    ("\x00\xff 1:1", r"label '\x00\\xc3\\xbf' is wrong; it must be -1 or +1, or 0 or 1"),
]


@pytest.mark.parametrize(("line", "why"), BAD)
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = text_of(tmp_path / "x", f"# top\n+1 1:1\n-1 2:1\n\n{line}\n+1 1:1\n")
    with pytest.raises(LibsvmError) as caught:
        whole(path)

    assert f"{path} line 5: {why}" == str(caught.value)


def test_a_wrong_line_far_into_the_file_has_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*dense_lines(300, FEATURES)[0], "+1 5"]
    path = text_of(tmp_path / "x", "\n".join(lines))
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 1000)

    with pytest.raises(LibsvmError, match=r"line 301: '5' is not INDEX:VALUE"):
        whole(path)


@pytest.mark.parametrize("size", [1 << 20, 8])
def test_labels_0_and_minus_1_are_never_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = text_of(tmp_path / "x", "1 1:1\n0 1:1\n\n-1 1:1\n0 1:1\n")
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", size)

    with pytest.raises(LibsvmError, match=r"line 4: labels are 0 and -1; they must be"):
        whole(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing here\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(LibsvmError, match="has no rows"):
        whole(text_of(tmp_path / "x", text))


def test_files_that_cannot_be_read_are_refused_in_one_sentence(tmp_path: Path) -> None:
    cut = text_of(tmp_path / "cut.gz", gzip.compress(b"+1 1:1\n" * 1000)[:-20])
    garbage = text_of(tmp_path / "garbage.bz2", b"+1 1:1\n")

    for path, why in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (cut, "cut short"),
        (garbage, "Invalid data stream"),
    ):
        with pytest.raises(LibsvmError, match=why):
            whole(path)


def test_a_line_without_end_is_refused_before_memory_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libsvm, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 1 << 18)
    path = text_of(tmp_path / "x", b"+1 1:1\n" + b"1" * (3 << 20))

    with pytest.raises(LibsvmError, match="line 2 is longer than 1 MiB"):
        whole(path)


def pair_of_files(folder: Path, labels: str = "-1 +1") -> Path:
    low, high = labels.split()
    train = text_of(folder / "eps.gz", gzip.compress(f"{low} 1:1\n{high} 3:2\n".encode()))
    text_of(folder / "eps.t.bz2", bz2.compress(f"{high} 2:4\n".encode()))
    return train


def test_files_are_converted_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = pair_of_files(tmp_path)
    folder = converted.converted(train, 3, tmp_path / "cache")
    monkeypatch.setattr(libsvm, "blocks", lambda *_: pytest.fail("read again"))
    again = converted.converted(train, 3, tmp_path / "cache")
    numbers, labels = Rows(again, "train").take(np.array([1, 0]))

    assert folder == again
    assert [[0, 0, 2], [1, 0, 0]] == numbers.tolist()
    assert [1, 0] == labels.tolist()
    assert [[0, 4, 0]] == Rows(folder, "validation").take(slice(0, 1))[0].tolist()
    assert {"eps.gz", "eps.t.bz2", "cache"} == {path.name for path in tmp_path.iterdir()}
    assert [folder] == list((tmp_path / "cache" / "libsvm").iterdir())


def test_a_changed_file_is_converted_again(tmp_path: Path) -> None:
    train = pair_of_files(tmp_path)
    first = converted.converted(train, 3, tmp_path / "cache")
    text_of(train, gzip.compress(b"+1 1:1\n"))

    assert first != converted.converted(train, 3, tmp_path / "cache")


def test_labels_0_and_1_are_told(tmp_path: Path) -> None:
    train = pair_of_files(tmp_path, "0 1")
    cache = tmp_path / "cache"
    before = converted.describe_files(train, 3, cache)
    folder = converted.converted(train, 3, cache)
    after = converted.describe_files(train, 3, cache)

    assert {"data": str(train), "validation": str(tmp_path / "eps.t.bz2")} == before
    assert "0 and 1, taken as -1 and +1" == after["labels"] == about(folder)["about"]["labels"]
    assert (2, 1) == (after["train_rows"], after["validation_rows"])
    assert [0, 1] == Rows(folder, "train").take(slice(None))[1].tolist()


def test_nothing_is_kept_of_a_file_that_is_wrong(tmp_path: Path) -> None:
    train = pair_of_files(tmp_path)
    text_of(tmp_path / "eps.t.bz2", bz2.compress(b"+1 1:1\n+1 9:1\n"))

    with pytest.raises(LibsvmError, match=r"eps\.t\.bz2 line 2: index 9 is too large"):
        converted.converted(train, 3, tmp_path / "cache")
    assert [] == list((tmp_path / "cache" / "libsvm").iterdir())


def test_a_full_disk_names_the_variable_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(converted, "write_split", full)

    with pytest.raises(LibsvmError, match=r"12 bytes a row; name another folder in LOCKSTEP_CACHE"):
        converted.converted(pair_of_files(tmp_path), 3, tmp_path / "cache")


def test_without_a_file_to_validate_on_the_name_is_told(tmp_path: Path) -> None:
    train = text_of(tmp_path / "eps.bz2", bz2.compress(b"+1 1:1\n"))

    with pytest.raises(LibsvmError, match=r"put eps\.t \(or \.bz2, \.gz, \.xz\) beside it"):
        converted.look_at(train, 3)


def test_the_first_lines_are_looked_at(tmp_path: Path) -> None:
    train = pair_of_files(tmp_path)
    converted.look_at(train, 3)

    with pytest.raises(LibsvmError, match="line 2: index 3 is too large"):
        converted.look_at(train, 2)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"LOCKSTEP_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/lockstep")),
        ({}, Path.home() / ".cache" / "lockstep"),
    ],
)
def test_the_cache_is_where_the_environment_says(environment: dict[str, str], wanted: Path) -> None:
    assert wanted == converted.cache_folder(environment)


def test_a_folder_that_lost_a_part_is_refused(tmp_path: Path) -> None:
    folder = converted.converted(pair_of_files(tmp_path), 3, tmp_path / "cache")
    (folder / "train.f32").write_bytes(b"1234")

    with pytest.raises(DataError, match=r"train\.f32 has 4 bytes; rows\.json says 24"):
        Rows(folder, "train")
    with pytest.raises(DataError, match="is no folder of rows"):
        Rows(tmp_path, "train")

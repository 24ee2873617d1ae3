"""Host files as Open MPI and MPICH write them, and what is wrong with others."""

from pathlib import Path

import pytest

from lockstep.workloads.launch.mpirun.hostfile import Host, HostfileError, read, require


def written(folder: Path, text: str) -> Path:
    path = folder / "hosts"
    path.write_text(text)
    return path


def test_both_syntaxes_are_read_in_order(tmp_path: Path) -> None:
    text = (
        "# two racks\nnode-a slots=4\n\nnode-b.rack.example:2  # MPICH\n10.0.0.3\n"
        "d slots=8 max_slots=3\n"
    )

    assert (
        Host("node-a", 4, 2), Host("node-b.rack.example", 2, 4), Host("10.0.0.3", None, 5),
        Host("d", 3, 6),
    ) == read(written(tmp_path, text))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a slots=2\nb slot=2\n", "line 2: 'slot=2' is unknown; write `host slots=N` or `host:N`"),
        ("a:x\n", "line 1: 'a:x' is no host; write `host slots=N` or `host:N`"),
        ("a\nb\na\n", "line 3: host a is in line 1 already; name each host once, with slots=N"),
        ("a slots=0\n", "line 1: host a has no slots"),
        ("# nothing\n", "names no host; give one a line"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(HostfileError) as refused:
        read(written(tmp_path, text))

    assert str(refused.value).endswith(sentence)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "hosts"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(HostfileError, match=r"^the host file .* cannot be read: "):
        read(path)


@pytest.mark.parametrize(
    ("nodes", "ranks", "sentence"),
    [
        (3, 1, "names 2 hosts, too few for --nodes 3; each node is a host of its own"),
        (1, 1, "names 2 hosts, too many for --nodes 1; each node is a host of its own"),
        (2, 2, "line 2: host b has 1 slots, too few for --ranks-per-node 2"),
    ],
)
def test_hosts_that_do_not_fit_the_run_are_refused(
    tmp_path: Path, nodes: int, ranks: int, sentence: str
) -> None:
    path = written(tmp_path, "a slots=2\nb slots=1\n")

    with pytest.raises(HostfileError) as refused:
        require(read(path), path, nodes, ranks)

    assert str(refused.value).endswith(sentence)


def test_hosts_that_say_nothing_of_slots_take_any_number(tmp_path: Path) -> None:
    path = written(tmp_path, "a\nb\n")

    require(read(path), path, 2, 64)

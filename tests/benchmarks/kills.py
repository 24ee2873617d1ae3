"""Real runs in which one rank is killed at a random moment: is a crash healthy, who was it?

KILLS says how many (200), KILLS_FOLDER where they stay (a folder that goes on where it ended),
KILLS_JOBS how many at a time (1), KILLS_SEED which. Every third is scraped by Debian's Prometheus
as well, if that is here; each is judged from its archive and from the pages that its recorder saw.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock

from lockstep.analyzer.read.archive.load import load_archive
from lockstep.analyzer.read.prometheus.load import load_prometheus as load_recorded
from lockstep.analyzer.shapes.run import Run, Verdict
from lockstep.analyzer.shapes.windows import from_samples
from lockstep.analyzer.verdict.pipeline import diagnose
from lockstep.collector.contract.words import ExitCode
from lockstep.diagnose.diagnosis import exit_code
from tests.benchmarks.interrupted import InterruptedEarlyError
from tests.benchmarks.kill_cases import CaseInterruptedError, Killed, drawn, played, read

GOALS = {f"{way}_{what}": 0.0 for way in ("archive", "pages", "prometheus")
         for what in ("healthy", "exit_0", "innocent_alone")} | {
    "archive_first_not_named_share": 0.05,
}  # fmt: skip
Case = tuple[Killed, dict[str, Verdict]]
"""What became of a run, and its verdicts by where they come from."""
EVERY = 3
"""One of so many is scraped by Prometheus as well."""


def main() -> dict[str, float]:
    """Figures; GOALS has what they may be at most."""
    number = int(os.environ.get("KILLS", "200"))
    jobs = int(os.environ.get("KILLS_JOBS", "1"))
    seed = int(os.environ.get("KILLS_SEED", "2026"))
    with contextlib.ExitStack() as stack:
        name = os.environ.get("KILLS_FOLDER") or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="lockstep-kills-")
        )
        folder = Path(name)
        server = stack.enter_context(prometheus(folder))
        busy = Lock()

        def one(index: int) -> Case:
            return judged(index, seed, folder, server, busy)

        return figures(_all(one, number, jobs))


def _all(one: Callable[[int], Case], number: int, jobs: int) -> list[Case]:
    """What `one` says of each case.

    Raises:
        InterruptedEarlyError: Ctrl-C; has the figures of the cases that were done.
    """
    told: list[Case] = []
    pool = ThreadPoolExecutor(jobs)
    try:
        told.extend(pool.map(one, range(number)))  # one by one: what is done is in it
    except (KeyboardInterrupt, CaseInterruptedError):
        raise InterruptedEarlyError(figures(told)) from None
    finally:
        pool.shutdown(cancel_futures=True)  # cases under way end their own processes
    return told


def judged(
    index: int, seed: int, folder: Path, server: tuple[str, Path] | None, busy: Lock
) -> Case:
    """One case, played unless it was, and its verdicts by where they come from."""
    here = folder / f"case-{index:03}"
    scraped = server is not None and index % EVERY == 0
    known = read(here)
    with busy if scraped and known is None else contextlib.nullcontext():
        if known is None:
            shutil.rmtree(here, ignore_errors=True)
            here.mkdir(parents=True)
            known = played(drawn(index, seed), here, server[1] if scraped and server else None)
    verdicts = {}
    if known.killed and (here / "archive" / "run.json").exists():
        run = load_archive(here / "archive")
        verdicts["archive"] = diagnose(run).verdict
        verdicts["pages"] = diagnose(pages_of(run)).verdict
        if scraped and server is not None:
            with contextlib.suppress(Exception):
                verdicts["prometheus"] = diagnose(load_recorded(server[0], known.run)).verdict
    words = ", ".join(f"{way} {spoken(known, verdict)}" for way, verdict in verdicts.items())
    case = known.case
    line = f"{index}: {' '.join(case.words)}, signal {case.signal} to rank {case.rank}"
    print(f"  {line} in step {known.step}: {words or 'it had ended'}", flush=True)  # noqa: T201
    return known, verdicts


def pages_of(run: Run) -> Run:
    """The run as a Prometheus would know it that scraped what the recorder did."""
    windows = from_samples(run.samples)
    return replace(run, meta={}, windows=windows, ops=None)


def spoken(known: Killed, verdict: Verdict) -> str:
    """The verdict in a word."""
    if verdict.status == "healthy":
        return "HEALTHY"
    ranks = [culprit.rank for culprit in verdict.culprits]
    if ranks == [known.case.rank]:
        return "named"
    return "one of " + str(ranks) if known.case.rank in ranks else f"{verdict.status} {ranks}"


def figures(told: list[Case]) -> dict[str, float]:
    """Counts over all cases that had a verdict."""
    found: dict[str, float] = {
        "cases": float(len(told)), "killed": float(sum(known.killed for known, _ in told)),
    }  # fmt: skip
    for way in ("archive", "pages", "prometheus"):
        counts: Counter[str] = Counter()
        for known, verdicts in told:
            if (verdict := verdicts.get(way)) is not None:
                ranks = [culprit.rank for culprit in verdict.culprits]
                counts["judged"] += 1
                counts["healthy"] += verdict.status == "healthy"
                counts["exit_0"] += exit_code(verdict) == ExitCode.OK
                counts["named"] += ranks == [known.case.rank]
                counts["among_several"] += len(ranks) > 1 and known.case.rank in ranks
                counts["innocent_alone"] += bool(ranks) and known.case.rank not in ranks
                counts["nobody"] += not ranks
        if total := counts["judged"]:
            found |= {f"{way}_{name}": float(counts[name]) for name in (
                "judged", "healthy", "exit_0", "named", "among_several", "innocent_alone",
                "nobody")}  # fmt: skip
            found[f"{way}_first_not_named_share"] = 1.0 - counts["named"] / total
    return found


@contextlib.contextmanager
def prometheus(folder: Path) -> Iterator[tuple[str, Path] | None]:
    """(URL, file with its targets) of a Prometheus that scrapes each second; None without one."""
    program = shutil.which("prometheus")
    if program is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    targets = folder / "targets.json"
    targets.write_text("[]")
    discovery = [{"files": [str(targets)], "refresh_interval": "1s"}]
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "lockstep", "file_sd_configs": discovery}],
    }))  # fmt: skip
    process = subprocess.Popen(
        [program, f"--config.file={config}", f"--storage.tsdb.path={folder}/tsdb",
         f"--web.listen-address={own}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://{own}", targets
    finally:
        process.terminate()
        process.wait(20)

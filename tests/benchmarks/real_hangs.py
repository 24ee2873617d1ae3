"""How often rank and kind of real hangs are named, and nobody in real runs that are well.

`python -m tests.benchmarks real_hangs --runs 320 --healthy 100 --seed 1 --out FILE`: so many runs
of tests/standing_programs.py, two at a time, each with a fault of its list in turn. Each case is a
line of FILE (JSON), and a case that is there is not run again. Judged twice: with all that a node
tells, and without stacks.
"""

import argparse
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FAULTS = (
    "sigstop", "gil", "skipped", "shape", "loader", "dead", "checkpoint", "pipeline",
)  # fmt: skip
KINDS = {
    "sigstop": "host-stopped", "gil": "host-stopped", "skipped": "mismatched",
    "shape": "mismatched-shape", "loader": "data-loader", "dead": "peer-died",
    "checkpoint": "checkpoint-storage", "pipeline": "host-stopped",
}  # fmt: skip
"""What a call that was left out shows as is whatever differs first."""
LIMIT_SECONDS = 2.0
"""For `judge`: below how long these hangs stand, and above what a busy machine makes ranks wait."""
AT_ONCE = 2
PR_SET_PDEATHSIG = 1
"""prctl(2): a signal when the one that started it has ended."""
GOALS = {
    "rank_missed_share": 0.02, "kind_missed_share": 0.05, "innocent_named": 0,
    "healthy_with_somebody_named": 0,
}  # fmt: skip


def main() -> dict[str, float]:
    """Shares of runs, and counts by fault; what is wrong is on stderr."""
    options = _options(sys.argv[2:])
    out = options.out or Path(tempfile.mkdtemp()) / "cases.jsonl"
    sys.stderr.write(f"cases: {out}\n")
    asked = [(FAULTS[each % len(FAULTS)], options.seed + each) for each in range(options.runs)]
    asked += [("", options.seed + each) for each in range(options.healthy)]
    found = cases(asked, out, options.keep)
    for one in found:
        if not is_right(one):
            sys.stderr.write(json.dumps(one) + "\n")
    return _figures(found)


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.benchmarks real_hangs")
    parser.add_argument("--runs", type=int, default=320)
    parser.add_argument("--healthy", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="lines of cases; those there are not run again")
    parser.add_argument(
        "--keep", type=Path, help="folder for dumps of cases that were judged wrong"
    )
    return parser.parse_args(words)


def cases(
    asked: Sequence[tuple[str, int]], out: Path, keep: Path | None
) -> list[dict[str, Any]]:  # fmt: skip
    """Every case that was asked for: from the file, or run now by processes of their own."""
    lines = out.read_text().splitlines() if out.exists() else []
    known = {(one["fault"], one["seed"]): one for one in map(json.loads, lines)}
    todo = [one for one in asked if one not in known]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", __name__, str(keep or "")]
    workers = [
        subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        for _ in range(min(AT_ONCE, len(todo)))
    ]
    try:
        for worker, mine in zip(workers, _shared(todo, len(workers)), strict=True):
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(mine) + "\n")
            worker.stdin.flush()
        with out.open("a") as file:
            for line in _lines(workers):
                one = json.loads(line)
                known[one["fault"], one["seed"]] = one
                file.write(line)
                file.flush()
    finally:
        for worker in workers:
            worker.terminate()  # its ranks end with it
            worker.communicate()
    return [known[one] for one in asked if one in known]


def _shared(todo: Sequence[tuple[str, int]], workers: int) -> list[Sequence[tuple[str, int]]]:
    """In any order, so that faults that take longer are spread, and what is done is a sample."""
    mixed = random.Random(0).sample(todo, len(todo))
    return [mixed[number::workers] for number in range(workers)]


def _lines(workers: Sequence[subprocess.Popen[str]]) -> Iterator[str]:
    """Of all, as they come."""
    from selectors import EVENT_READ, DefaultSelector

    with DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.stdout, EVENT_READ)  # type: ignore[arg-type]
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield line
                else:
                    selector.unregister(key.fileobj)


def is_right(one: dict[str, Any]) -> bool:
    if not one["stood"]:
        return not one["fault"]
    if not one["fault"]:
        return not one["named"]
    return one["named"] == [one["rank"]] and str(one["kind"]).startswith(_kind(one))


def _kind(one: dict[str, Any]) -> str:
    """What can be known: gloo ends a process that is sent too much, with all it could tell."""
    return "peer-died" if str(one["rank"]) in one["exited"] else KINDS[one["fault"]]


def _figures(cases: Sequence[dict[str, Any]]) -> dict[str, float]:
    hangs = [one for one in cases if one["fault"] and one["stood"]]
    healthy = [one for one in cases if not one["fault"]]
    figures: dict[str, float] = {}
    for fault in FAULTS:
        some = [one for one in hangs if one["fault"] == fault]
        figures[f"{fault}_hangs"] = len(some)
        figures[f"{fault}_rank_missed"] = sum(one["named"] != [one["rank"]] for one in some)
        figures[f"{fault}_kind_missed"] = sum(not is_right(one) for one in some)
    every = max(len(hangs), 1)
    return figures | {
        "hangs": len(hangs),
        "did_not_hang": sum(bool(one["fault"]) and not one["stood"] for one in cases),
        "ended_by_gloo": sum(
            str(one["rank"]) in one["exited"] and one["fault"] != "dead" for one in hangs
        ),
        "rank_missed_share": sum(one["named"] != [one["rank"]] for one in hangs) / every,
        "kind_missed_share": sum(not is_right(one) for one in hangs) / every,
        "innocent_named": sum(bool(set(one["named"]) - {one["rank"]}) for one in hangs),
        "without_stacks_rank_missed_share": (
            sum(one["named_without_stacks"] != [one["rank"]] for one in hangs) / every
        ),
        "without_stacks_innocent_named": sum(
            bool(set(one["named_without_stacks"]) - {one["rank"]}) for one in hangs
        ),
        "healthy": len(healthy),
        "healthy_with_somebody_named": sum(bool(one["named"]) for one in healthy),
        "seconds_a_case": sum(one["seconds"] for one in cases) / max(len(cases), 1),
    }


def judged(folder: Path, *, stacks: bool = True) -> dict[str, Any]:
    """The verdict on the dumps of a case."""
    from dataclasses import replace

    from lockstep.analyzer.hangs.dumps import FactKind
    from lockstep.analyzer.hangs.verdict import judge
    from lockstep.runs.hang_dumps import NoDumpsError, read_folder

    try:
        dumps = read_folder(folder)[0][1]
    except NoDumpsError as error:
        return {"named": [], "kind": None, "suspects": [], "status": "unknown", "why": str(error)}
    if not stacks:
        told = tuple(fact for fact in dumps.facts if fact.kind is not FactKind.STACK)
        dumps = replace(dumps, facts=told)
    verdict = judge(dumps, LIMIT_SECONDS)
    return {
        "named": sorted(one.rank for one in verdict.origins if one.certain),
        "kind": None if verdict.kind is None else verdict.kind.value,
        "suspects": sorted(
            {*verdict.suspects, *(o.rank for o in verdict.origins if not o.certain)}
        ),
        "status": verdict.status.value,
        "why": verdict.reason,
    }


def case(fault: str, seed: int, keep: Path | None) -> dict[str, Any]:
    """One run and its verdict."""
    from tests.standing_programs import planned, run

    begin = time.perf_counter()
    plan = planned(seed, fault)
    folder = Path(tempfile.mkdtemp(prefix="hang"))
    try:
        found = run(plan, folder)
        layout = plan.layout
        one = {
            "fault": fault, "seed": seed, "layout": [layout.dp, layout.tp, layout.pp, layout.ep],
            "rank": plan.rank, "step": plan.step, "outside": plan.outside, "stood": found.stood,
            "raised": found.raised,
            "exited": {str(rank): code for rank, code in found.exited.items()},
            **judged(found.folder),
            "named_without_stacks": judged(found.folder, stacks=False)["named"],
            "seconds": round(time.perf_counter() - begin, 2),
        }  # fmt: skip
        if keep is not None and not is_right(one):
            shutil.copytree(folder, keep / f"{fault or 'healthy'}-{seed}", dirs_exist_ok=True)
    finally:
        shutil.rmtree(folder)
    return one


def _work() -> None:
    """A worker: the cases of its stdin, one line of JSON each."""
    keep = Path(sys.argv[1]) if sys.argv[1] else None
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and cleans up
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    for fault, seed in json.loads(sys.stdin.readline()):
        sys.stdout.write(json.dumps(case(fault, seed, keep)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _work()

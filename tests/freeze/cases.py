"""Everything that is asked: each case is an input made from a seed, and commands about it."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.analyzer.conftest import Fault, Synthetic
from tests.analyzer.hardware.anomalies.conftest import Hardware
from tests.analyzer.read.prometheus.fake import serving, stored
from tests.benchmarks.foreign import runs as foreign_runs
from tests.benchmarks.independent import runs as independent_runs
from tests.freeze import inside
from tests.freeze.answers import ask, document, mark
from tests.freeze.inputs import (
    cut,
    dumps,
    marks,
    parts,
    spoiled,
    synthetic,
    void,
    without_columns,
    without_file,
    without_keys,
    without_metrics,
    without_ranks,
)
from tests.tiers import Tier
from tests.unpacking import unpacked

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
DUMPED = 1_795_847_590.0
"""Unix seconds, a minute after the last entry of the flight recorder's fixture."""
MACHINES = sorted(path.name for path in (FIXTURES / "machines").iterdir() if path.is_dir())
Write = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """One input and what is asked of it.

    Attributes:
        name: Of its files.
        answered: From an empty folder to {"input": marks, "answers": trees}.
        tier: Which tests have it.
    """

    name: str
    answered: Callable[[Path], dict[str, Any]]
    tier: Tier = Tier.QUICK


def archive(name: str, write: Write, *commands: str, tier: Tier = Tier.QUICK) -> Case:
    """An archive that is analyzed, or asked about with these commands, where {} is its folder."""

    def answered(folder: Path) -> dict[str, Any]:
        run = folder / "runs" / "run"
        run.parent.mkdir()
        write(run)
        wanted = commands or ("analyze {} -o json",)
        held = marks(run)
        return {"input": held, "answers": [ask(folder, *words(each, run)) for each in wanted]}

    return Case(name, answered, tier)


def words(command: str, run: Path) -> list[str]:
    """Of a command, with the folder of the run."""
    return [each.replace("{}", str(run)) for each in command.split()]


def foreign(kind: str, seed: int) -> Write:
    """A run of tests.benchmarks.foreign."""
    return lambda folder: void(foreign_runs.make(folder.parent, kind, seed).rename(folder))


def independent(kind: str, seed: int) -> Write:
    """A run of tests.benchmarks.independent."""
    return lambda folder: void(independent_runs.make(folder.parent, kind, seed, 0).rename(folder))


def packed(name: str) -> Write:
    """A fixture."""
    return lambda folder: void(unpacked(FIXTURES / name, folder))


def dumps_of_torch(folder: Path) -> None:
    """Real ones; a checkout does not keep when they were written."""
    shutil.copytree(FIXTURES / "nccl/flight-recorder-2.28.9-rank-2-stopped", folder)
    for path in folder.iterdir():
        os.utime(path, (DUMPED, DUMPED))


def scraped(name: str, write: Write) -> Case:
    """A run as an archive and as a Prometheus has it."""

    def answered(folder: Path) -> dict[str, Any]:
        run = folder / "run"
        write(run)
        held = marks(run)
        tables = [pq.read_table(path).to_pandas() for path in parts(run / "samples.parquet")]
        samples = pd.concat(tables).astype({"gpu": "Int32", "rank": "Int32"})
        with serving() as prometheus:
            prometheus.series = stored(samples, "synthetic-0", samples["node"].nunique())
            source = ("--prometheus", prometheus.url, "--run", "synthetic-0", "-o", "json")
            answers = [
                ask(folder, "analyze", str(run), "-o", "json"),
                ask(folder, "analyze", "--no-push-down", *source),
                ask(folder, "ledger", *source),
            ]
        return {"input": held, "answers": answers}

    return Case(f"scraped-{name}", answered)


def hardware(folder: Path) -> dict[str, Any]:
    """GPUs that are given by hand; nothing tells of training on them."""
    fleet = Hardware(nodes=3).hot(5, since=30).wait(5, since=30)
    fleet.gpus["lockstep_gpu_up", ""] = np.ones((fleet.bins, 12))
    samples = fleet.samples()
    samples.to_parquet(folder / "samples.parquet")
    held = marks(folder)
    with serving() as prometheus:
        prometheus.series = stored(samples, "", 0)
        asked = ("--gpus", "node-0:0-3,node-1:0-3", "--until", str(samples["time"].max()))
        answer = ask(folder, "analyze", "--prometheus", prometheus.url, *asked, "-o", "json")
    return {"input": held, "answers": [answer]}


def trace(name: str, layout: str, *slow: tuple[int, int, float], **scene: Any) -> Case:
    """Operations of a run in the public schema."""

    def answered(folder: Path) -> dict[str, Any]:
        path = folder / "ops.parquet"
        inside.write_trace(path, *slow, **scene)
        held = marks(folder)
        asked = ("analyze", "--trace", str(path), "--layout", layout, "-o", "json")
        return {"input": held, "answers": [ask(folder, *asked)]}

    return Case(f"trace-{name}", answered)


def hung(fault: str, seed: int) -> Case:
    """Dumps of a run that hangs."""
    return archive(f"hang-{fault}", dumps(seed, fault), "hang {} -o json")


class Elsewhere(Synthetic):
    """On nodes of another name."""

    letter = "a"

    def node(self, rank: int) -> str:
        return super().node(rank).replace("node", self.letter)


def cluster(folder: Path) -> dict[str, Any]:
    """Two runs under a slow leaf, and one elsewhere that is well."""
    runs = []
    for letter, knobs in (("a", {"uniform": (80, 1.4)}), ("b", {"uniform": (80, 1.4)}), ("c", {})):
        recipe = Elsewhere(seed=len(runs), steps=160, **knobs)
        recipe.letter = letter
        runs.append(str(recipe.write(folder / letter)))
    held = marks(folder)
    leaves = {"leaf-1": "ab", "leaf-2": "c"}
    lines = [f"{leaf} = {[f'{letter}-{n}' for letter in letters for n in range(4)]}"
             for leaf, letters in leaves.items()]  # fmt: skip
    topology = folder / "topology.toml"
    topology.write_text("\n".join(["[leaf]", *lines]))
    answers = [
        ask(folder, "cluster", *runs, "--topology", str(topology), "-o", "json"),
        ask(folder, "cluster", *runs, "-o", "json"),
    ]
    return {"input": held, "answers": answers}


def recurrent(folder: Path) -> dict[str, Any]:
    """A culprit that was one before, by the archives that stand beside."""
    write = synthetic(Fault("thermal", 2))
    for name in ("first", "second"):
        write(folder / name)
    held = marks(folder)
    asked = [("analyze", str(folder / name), "-o", "json") for name in ("first", "second")]
    asked += [("ledger", str(folder / "first"), str(folder / "second"), "-o", "json")]
    return {"input": held, "answers": [ask(folder, *each) for each in asked]}


def rules(folder: Path) -> dict[str, Any]:
    """Recording rules and alerts: expressions, labels, durations."""
    answers = [ask(folder, "rules"), ask(folder, "rules", "--out", str(folder / "rules"))]
    return {"input": {}, "answers": answers}


def pages(folder: Path) -> dict[str, Any]:
    """Every metric of the contract, and what is on the page of each captured machine."""
    answers = [
        ask(folder, "collect", "--once", "--replay", str(FIXTURES / "machines" / machine),
            "--sources", "nvml", "--node", "node")
        for machine in MACHINES
    ]  # fmt: skip
    return {"input": {}, "answers": [{"metrics": inside.metrics()}, *answers]}


def life(name: str, seed: int, hours: float, *, diagnosed: bool, tier: Tier) -> Case:
    """Hours of a simulated cluster under `lockstep watch`: findings, verdicts, alerts."""

    def answered(folder: Path) -> dict[str, Any]:
        seen = inside.lived(folder, seed, hours, diagnosed=diagnosed)
        return {
            "input": {"history": mark(seen["history"])},
            "answers": [
                {"alerts": seen["alerts"]},
                {"findings": dict(found(folder / "out", diagnosed=diagnosed))},
            ],
        }

    return Case(name, answered, tier)


def found(out: Path, *, diagnosed: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """By finding, the JSON of its archive; reports are cases of their own."""
    names = ("finding.json", *(["opened.json", "run.json", "verdict.json"] if diagnosed else []))
    for folder in sorted(out.glob("*/*/")):
        files = [folder / name for name in names if (folder / name).exists()]
        yield folder.relative_to(out).as_posix(), {path.name: document(path) for path in files}


SMALL = partial(synthetic, steps=160)
HOT = Fault("thermal", 2)
HANGS = (
    "host-stopped", "device-stopped", "device-unstarted", "mismatched-operation",
    "mismatched-shape", "communicator-aborted", "peer-died", "left", "silent", "data-loader",
    "checkpoint-storage", "skipped",
)  # fmt: skip
CASES: tuple[Case, ...] = (
    # Every cause, by archives of generators that know nothing of the analyzer.
    archive("thermal", foreign("thermal", 1)),
    archive("power", foreign("power", 36)),
    archive("slow-gpu", foreign("slowgpu", 108)),
    archive("ecc", foreign("ecc", 1)),
    archive("xid", foreign("xid", 1)),
    archive("xid-79", foreign("xid79", 1), tier=Tier.SWEEP),
    archive("pcie", foreign("pcie", 106)),
    archive("nvlink", foreign("nvlink", 131)),
    archive("nvlink-of-many", foreign("nvlink", 33), tier=Tier.SWEEP),
    archive("link-rate", foreign("portrate", 37)),
    archive("link-loss", foreign("portloss", 127)),
    archive("link-flaps", foreign("portflap", 38), tier=Tier.SWEEP),
    archive("congestion", foreign("leaf", 34)),
    archive("host-cpu", foreign("hostrank", 1)),
    archive("host-cpu-of-a-node", independent("hostcpu", 31), tier=Tier.SWEEP),
    archive("data", foreign("datarank", 1)),
    archive("gc", foreign("gc", 1)),
    archive("checkpoint", independent("ckpt", 34)),
    archive("checkpoint-of-a-node", foreign("ckptnode", 1), tier=Tier.SWEEP),
    archive("freeze", foreign("freeze", 1)),
    archive("freeze-in-a-hang", independent("hang", 1)),
    archive("crash", foreign("crash", 1)),
    archive("crash-by-xid", independent("xidcrash", 1)),
    archive("software", partial(inside.write_fleet, seed=133)),
    archive("unknown", foreign("nodelost", 109)),
    archive("unknown-hang", foreign("hang", 1)),
    archive("unknown-slow", independent("slowgpu", 31), tier=Tier.SWEEP),
    archive("two-faults", foreign("thermal+datarank", 40), tier=Tier.SWEEP),
    # Nobody's fault.
    archive("healthy", foreign("plain", 101)),
    archive("uniform", independent("benign", 32)),
    archive("structure", foreign("heavystage", 33)),
    archive("evaluations", foreign("evals", 1), tier=Tier.SWEEP),
    archive("restarted", foreign("restart", 101)),
    archive("decoys", foreign("decoys", 1), tier=Tier.SWEEP),
    archive("other-jobs", foreign("cron", 1)),
    archive("deviating-hardware", foreign("portloss", 30)),
    archive("hot-room", foreign("hotroom", 32), tier=Tier.SWEEP),
    archive("scrapes-fail", foreign("badscrape", 1)),
    archive("swap", foreign("swap", 36), tier=Tier.SWEEP),
    # By whatever else tells of a run.
    archive("h200", packed("archives/h200-rank-2-slow.tar.xz")),
    archive("inspector", packed("nccl/inspector-2.28.9-rank-2-late.tar.xz")),
    archive(
        "inspector-of-a-fleet", partial(inside.write_inspector_lines, seed=53), tier=Tier.SWEEP
    ),
    trace("slow-worker", "dp=4,pp=2", (1, 1, 1.3), dp=4, pp=2, micro_batches=4, steps=12),
    trace("healthy", "dp=4,pp=2", dp=4, pp=2, micro_batches=4, steps=12, seed=1),
    trace("last-stage", "dp=2,pp=4", dp=2, pp=4, steps=12, last_stage=1.6, seed=2),
    trace("lengths", "dp=4,pp=2", dp=4, pp=2, steps=12, lengths=3.0, gc_every=4, seed=3),
    scraped("hot", SMALL(HOT)),
    scraped("throttled", SMALL(Fault("cpu-quota", 1))),
    scraped("frozen", SMALL(Fault("freeze", 1))),
    scraped("healthy", synthetic(steps=1200)),
    Case("scraped-hardware", hardware),
    # Hangs, by dumps of the flight recorder.
    *(hung(fault, seed) for seed, fault in enumerate(HANGS, start=3)),
    archive("hang-flight-recorder", dumps_of_torch, "hang {} -o json", "analyze {} -o json"),
    # Spoiled, and old.
    archive("spoiled-no-telemetry", SMALL(HOT, telemetry=False)),
    archive("spoiled-no-gpus", SMALL(HOT, gpus=False)),
    archive("spoiled-no-events", spoiled(SMALL(HOT), without_metrics("lockstep_gpu_clock_e"))),
    archive("spoiled-no-steps", spoiled(SMALL(HOT), without_file("steps.parquet"))),
    archive("spoiled-no-ranks", spoiled(SMALL(HOT), without_file("ranks.parquet"))),
    archive("spoiled-rank-unrecorded", spoiled(SMALL(HOT), without_ranks(1))),
    archive("spoiled-steps-cut", spoiled(SMALL(HOT), cut("steps.parquet"))),
    archive("spoiled-part-cut", spoiled(SMALL(HOT), cut("samples.parquet/part-1.parquet"))),
    archive("spoiled-run-cut", spoiled(SMALL(HOT), cut("run.json"))),
    archive("spoiled-no-outcome", spoiled(SMALL(HOT), without_keys("outcome", "ended"))),
    archive("spoiled-no-layout", spoiled(SMALL(HOT), without_keys("layout"))),
    archive("spoiled-no-own", spoiled(SMALL(HOT), without_columns("steps.parquet", "own_seconds"))),
    archive("old-run", spoiled(SMALL(HOT), without_keys("outcome", "ended", "emulated_devices"))),
    archive("old-schema", spoiled(SMALL(HOT), without_keys("schema_version"))),
    # Other commands.
    archive("report-hot", SMALL(HOT), "report {} --format json --gpu-hour-price 2"),
    archive("report-crash", SMALL(Fault("crash", 1)), "report {} --format json"),
    Case("recurrent", recurrent),
    Case("cluster", cluster),
    Case("rules", rules),
    Case("pages", pages),
    life("watch-hour", 0, 1.0, diagnosed=True, tier=Tier.REAL),
    life("watch-hours", 3, 3.0, diagnosed=True, tier=Tier.SWEEP),
    life("watch-day", 1, 24.0, diagnosed=False, tier=Tier.SWEEP),
)

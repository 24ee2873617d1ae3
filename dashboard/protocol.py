"""What every source can be asked; pages know nothing else of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from lockstep.dashboard.shapes import (
    Answer,
    Event,
    FindingRow,
    FleetMetric,
    FleetSnapshot,
    Health,
    LedgerRow,
    Lines,
    Matrix,
    NodeFacts,
    RunRow,
    Span,
)


class Source(Protocol):
    """An archive, a folder of archives, or a Prometheus.

    Every method may raise TroubleError, and nothing else. What is not known is empty, NaN or None.
    Answers are shared between sessions: nobody changes them.
    """

    @property
    def name(self) -> str:
        """As `archive runs/gpt-…` or `http://prometheus:9090`; never with credentials."""

    @property
    def live(self) -> bool:
        """Whether it goes on."""

    def answer(self, span: Span | None = None, run: str = "") -> Answer:
        """How whole what it says is; what it says of a run, where one is given."""

    def extent(self) -> Span:
        """From when until when it knows anything."""

    def runs(self, span: Span | None = None) -> tuple[RunRow, ...]:
        """The runs, newest first; those of a span where one is given."""

    def run(self, run: str) -> RunRow:
        """One of them; an unknown id is trouble with the ids that there are."""

    def spec(self, run: str) -> Mapping[str, Any]:
        """run.json, as far as it is known: spec, layout, versions, seed, provenance."""

    def verdict(self, run: str) -> Mapping[str, Any] | None:
        """docs/reference/verdict.md, or what `watch` exports of it; None = nobody analyzed it."""

    def findings(self, span: Span, run: str = "") -> tuple[FindingRow, ...]:
        """Open ones first, then the newest."""

    def events(self, span: Span, run: str = "", node: str = "") -> tuple[Event, ...]:
        """In the order of time; of a run, of a node, or of all."""

    def run_lines(self, run: str, span: Span) -> tuple[Lines, ...]:
        """The Run page: loss, throughput, step, mfu, phases, gpu, cpu, memory, network.

        Each chart has its own moments (training those of steps, hardware those of scrapes), all of
        one clock and with the step that ran then, down-sampled so that a spike of one sample is
        seen; a chart that nobody told anything of is there without values.
        """

    def ranks(self, run: str, span: Span) -> pd.DataFrame:
        """One row a rank, sorted by slowdown.

        Columns: `rank, node, gpu, uuid, dp, pp, tp, steps, wall_seconds, own_seconds, slowdown,
        wait_share, <phase>_seconds`: seconds per step, medians over the span; `slowdown` is own
        time over the median of the ranks of the same pipeline stage; `wait_share` is time in
        collectives over wall time.
        """

    def rank_times(self, run: str, span: Span) -> Matrix:
        """Own time of each rank over that of its peers, by window; at most 300 windows."""

    def collectives(self, run: str, span: Span) -> pd.DataFrame:
        """One row an operation, group and size, the longest in sum first.

        Columns: `op, group, count, bytes, median_seconds, p95_seconds, total_seconds, busbw,
        late_rank, late_seconds`: busbw in bytes/s by the formula of nccl-tests; `late_rank` is who
        arrived last most often, with the median time by which it did.
        """

    def arrivals(self, run: str, span: Span) -> Matrix:
        """By how many seconds each rank arrived after the first one, by window."""

    def operations(self, run: str, rank: int, span: Span) -> pd.DataFrame:
        """Of one rank, at most 5,000: `op, group, step, sequence, start, seconds, bytes`."""

    def trace(self, run: str, span: Span) -> bytes:
        """The operations of a span as Trace Event JSON, gzip, for ui.perfetto.dev."""

    def fleet(self, metric: FleetMetric, at: float | None = None) -> FleetSnapshot:
        """One value a GPU; None = the newest."""

    def nodes(self) -> tuple[str, ...]:
        """Their names, in the order of the map."""

    def node(self, node: str, span: Span) -> NodeFacts:
        """Who it is, and what was looked at on it."""

    def node_lines(self, node: str, span: Span) -> tuple[Lines, ...]:
        """Its GPUs' utilisation, temperature, power and clock, CPU, memory, disk, network, errors.

        Each chart of GPUs has the band of their peers: `peers low` and `peers high`, 5 % and 95 %
        of the run's other GPUs.
        """

    def gpu_lines(self, node: str, gpu: int, span: Span) -> tuple[Lines, ...]:
        """Of one GPU: everything that is known of it.

        Utilisation, clocks, throttle reasons, temperature and its margin, power, memory, ECC, PCIe,
        NVLink.
        """

    def health(self, run: str = "") -> Health:
        """Whether the numbers can be trusted; those of a run, where one is given."""

    def ledgers(self, span: Span, run: str = "") -> tuple[LedgerRow, ...]:
        """Where the rank-seconds of the runs of a span went, the newest first; of one, or of all.

        Of archives over all attempts of a run; of a Prometheus within the span.
        """

    def folder(self, run: str) -> Path | None:
        """Of its archive on this machine, for reports; None = there is none."""

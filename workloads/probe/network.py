"""The whole probe: rounds over the links until something is named, then matrix products."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from workloads.comm import Comm
from workloads.probe.gemm import Gemm, to_dict
from workloads.probe.judging import ProbeResult, decide, next_round
from workloads.probe.links import LARGE_BYTES, SMALL_BYTES, Links
from workloads.probe.pairs import Pair
from workloads.probe.times import History, LinkTimes, fastest
from workloads.spec import Layout


class Probe:
    """One rank's part; all ranks call, and come to the same answer."""

    def __init__(self, comm: Comm, layout: Layout, rank: int, device: torch.device) -> None:
        self._nodes = layout.nodes
        self._links = Links(comm, layout, rank)
        self._gemm = Gemm(comm, rank, device)

    def run(self) -> dict[str, Any]:
        """What was found, as JSON types; times in seconds, bandwidths in bytes a second.

        Raises:
            PeerLostError: The connection to a peer broke.
        """
        finding, history = find(self._nodes, self._links)
        return {
            "nodes": self._nodes,
            "small_bytes": SMALL_BYTES,
            "large_bytes": LARGE_BYTES,
            "rounds": finding.rounds,
            "finding": _finding(finding),
            "links": _links(history),
            "gemm": to_dict(*self._gemm.measure()),
        }


def find(nodes: int, links: Links) -> tuple[ProbeResult, History]:
    """Round after round until the answer is there; every rank plans and decides alike.

    Raises:
        PeerLostError: The connection to a peer broke.
    """
    history: list[Mapping[Pair, LinkTimes]] = []
    while slots := next_round(nodes, history):
        history.append(links.measure(slots))
    return decide(nodes, history), history


def _finding(finding: ProbeResult) -> dict[str, Any]:
    culprits = [
        {
            "nodes": [f"node-{node}" for node in one.nodes],
            **asdict(one.slowness),
            "ratio": one.slowness.ratio,
        }
        for one in finding.culprits
    ]
    return {"kind": finding.kind.value, "culprits": culprits, "text": finding.text}


def _links(history: History) -> list[dict[str, Any]]:
    """Of every link the fastest of all rounds; `bandwidth` is of the slower direction."""
    return [
        {
            "ends": [f"node-{node}" for node in pair],
            "latency_seconds": one.latency.least,
            "there_seconds": one.there.least,
            "back_seconds": one.back.least,
            "bandwidth": LARGE_BYTES / one.transfer.least,
        }
        for pair, one in sorted(fastest(history).items())
    ]

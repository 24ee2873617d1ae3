"""Registers that stand at their maximum are unknown: nothing reads them as "nothing happened"."""

import dataclasses

import numpy as np
import pytest

from lockstep.analyzer.align.grid import align
from lockstep.analyzer.causes.symptoms import network
from lockstep.analyzer.report.sections.checks import SILENT, checks
from lockstep.analyzer.shapes.run import Finding
from lockstep.analyzer.stragglers.detectors.links import links
from lockstep.collector.contract import metrics as m

PORT = {"device": "mlx5_0", "port": "1"}


@pytest.fixture
def grid(synthetic, fault):
    """Four nodes, of which one is slow by its network; nobody's InfiniBand counts anything."""
    return align(synthetic(world=4, faults=[fault("link", 2, 1.5, 80)]).run())


def telling(grid, *series):
    """The grid without what it knew of networks, and with these series on some nodes."""
    told = {key: cells for key, cells in grid.signals.items()
            if not key.startswith(("lockstep_tcp", "lockstep_net", "lockstep_ib"))}  # fmt: skip
    for metric, labels, value, nodes in series:
        cells = np.full(grid.time["own"].shape, np.nan)
        cells[:, [c for c, info in enumerate(grid.ranks) if info.node in nodes]] = value
        told[metric.series(**PORT, **labels)] = cells
    return dataclasses.replace(grid, signals=told)


def finding(grid):
    rank = next(info.rank for info in grid.ranks if info.node == "node-2")
    return Finding(
        "links", "link", rank, 80, None, 1.5, (1.4, 1.6), 9.0, {}, "", {"node": "node-2"}
    )


ALL = ("node-0", "node-1", "node-2", "node-3")
WAIT = (m.IB_XMIT_WAIT, {}, 0.0, ALL[:2])
WAIT_STANDS = (m.IB_SATURATED, {"kind": "port_xmit_wait"}, 1.0, ALL[2:])
ERRORS = (m.IB_ERRORS, {"kind": "symbol_error"}, 0.0, ALL)
DOWNED_STANDS = (m.IB_SATURATED, {"kind": "link_downed"}, 1.0, ("node-2",))


def test_ports_that_count_and_did_not_wait_speak_against_congestion(grid):
    sign = network.pauses(telling(grid, (m.IB_XMIT_WAIT, {}, 0.0, ALL)), finding(grid))

    assert sign is not None
    assert not sign.seen


def test_a_port_that_counts_no_more_says_nothing_of_congestion(grid):
    assert None is network.pauses(telling(grid, WAIT, WAIT_STANDS), finding(grid))


def test_errors_are_unknown_where_a_register_stands(grid):
    known = telling(grid, ERRORS)
    unknown = telling(grid, ERRORS, DOWNED_STANDS)

    assert not network.losses(known, finding(grid)).seen
    assert None is network.losses(unknown, finding(grid))


def test_what_else_is_known_speaks_and_the_rest_is_called_unknown(grid):
    both = telling(grid, ERRORS, DOWNED_STANDS)
    quiet = {**both.signals, m.TCP_RETRANSMITTED.series(): np.zeros(grid.time["own"].shape)}
    sign = network.losses(dataclasses.replace(both, signals=quiet), finding(grid))

    assert not sign.seen
    assert "unknown, at their maximum: link_downed of node-2" in sign.text


def test_a_register_of_another_kind_takes_nothing_away(grid):
    other = telling(grid, (m.IB_XMIT_WAIT, {}, 0.0, ALL), DOWNED_STANDS)

    assert not network.pauses(other, finding(grid)).seen


def test_the_checklist_of_the_report_does_not_call_it_right(grid):
    def row(of):
        (table, *_) = checks(of)
        return next(row for row in table["rows"] if row[0] == "InfiniBand port errors")

    assert "✓ ok" == row(telling(grid, ERRORS))[1]
    said = row(telling(grid, ERRORS, DOWNED_STANDS))
    assert SILENT == said[1]
    assert "at their maximum: link_downed of node-2" == said[3]


def test_no_link_is_called_free_of_errors(grid):
    unknown = [found.text for found in links(telling(grid, ERRORS, DOWNED_STANDS))]

    assert any("at their maximum, and so unknown: link_downed of node-2" in text
               for text in unknown)  # fmt: skip

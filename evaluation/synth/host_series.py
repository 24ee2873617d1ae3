"""What nodes count: processors, network; and what the kernel counts of each rank."""

import numpy as np

from lockstep.analyzer.shapes.run import FloatGrid
from lockstep.collector.contract import metrics
from lockstep.collector.contract.words import Cause
from lockstep.evaluation.synth.fleet import GPUS_PER_NODE, SyntheticFleet
from lockstep.evaluation.synth.scrapes import About, Block, Scrapes, active, counted
from lockstep.evaluation.synth.times import Times
from lockstep.evaluation.synth.variant import Variant

BYTES_A_STEP = 4e9
"""Gradients of a node over the network, in each direction."""
LINE_RATE = 50e9
"""400 Gbit/s."""
SLOWER_RATE = 0.25
RETRANSMITTED = (50.0, 2000.0)
"""Segments a second on a bad cable."""
SYMBOL_ERRORS = (5.0, 500.0)
CARRIER_CHANGES = 0.2
"""A second, of a link that flaps."""
PAUSED = (0.05, 0.4)
"""Seconds a second for which a node behind a full port is told to wait."""
PAUSE_FRAMES = 2e4
"""A second of pause: refreshed before a quantum of 512 bit times x 65535 has passed."""
PAUSED_USUALLY = 0.002
QUEUED_USUALLY, PRESSED_USUALLY = 0.01, 0.02
CPUS = 96.0
CREDIT_TICKS = 1e8
"""IB counts waiting for credit in ticks; of a port's full second."""


def host_blocks(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    """What procfs, sysfs and ethtool would tell; half of the fleets have InfiniBand beside."""
    return [
        *_processors(fleet, times, seen, dice),
        *_network(fleet, variant, times, seen, dice),
    ]


def _processors(
    fleet: SyntheticFleet, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    shape, nodes = seen.rank_time.shape, seen.time.shape
    held, queued = np.zeros(shape), QUEUED_USUALLY * dice.gamma(2.0, 0.5, shape)
    pressed = PRESSED_USUALLY * dice.gamma(2.0, 0.5, nodes)
    for fault, place, strong in active(fleet, times, seen, Cause.HOST_CPU):
        excess = (fault.factor - 1.0) * strong
        share = excess / (1.0 + excess)
        target = held if fault.form == "quota" else queued
        target[:, place] += fault.faint * share * dice.uniform(0.7, 1.0, len(strong))
        if fault.form != "quota":
            pressed[:, place // GPUS_PER_NODE] += share * dice.uniform(0.5, 1.0)
    pressed = np.minimum(pressed, 1.0)
    since, since_node = seen.since(seen.rank_time), seen.since(seen.time)
    pressure = metrics.PRESSURE.name
    return [
        Block(metrics.RANK_THROTTLED.name, "", About.RANK, np.cumsum(held * since, axis=0)),
        Block(metrics.RANK_RUN_QUEUE.name, "", About.RANK, np.cumsum(queued * since, axis=0)),
        Block(pressure, 'resource="cpu",scope="some"', About.NODE,
              np.cumsum(pressed * since_node, axis=0)),
        Block(metrics.HOST_CPUS.name, "", About.NODE, np.array([[CPUS]])),
    ]  # fmt: skip


def _network(
    fleet: SyntheticFleet, variant: Variant, times: Times, seen: Scrapes, dice: np.random.Generator
) -> list[Block]:
    shape = seen.time.shape
    retransmitted = variant.retransmits * dice.gamma(1.0, 1.0, shape)
    speed = np.full(shape, LINE_RATE)
    symbols, carrier = np.zeros(shape), np.zeros(shape)
    paused = PAUSED_USUALLY * dice.gamma(1.0, 1.0, shape)
    of_network = fleet, times, seen, Cause.LINK, Cause.CONGESTION
    for (fault, place, strong), rising in zip(
        active(*of_network), counted(*of_network), strict=True
    ):
        if place % GPUS_PER_NODE:
            continue
        node = place // GPUS_PER_NODE
        if fault.cause is Cause.CONGESTION:
            paused[:, node] += dice.uniform(*PAUSED) * rising
            continue
        if fault.form == "rate":
            speed[strong > 0, node] *= SLOWER_RATE
        elif fault.form == "flap":
            carrier[:, node] += CARRIER_CHANGES * rising
        else:
            symbols[:, node] += dice.uniform(*SYMBOL_ERRORS) * rising
        retransmitted[:, node] += dice.uniform(*RETRANSMITTED) * rising
    infiniband = fleet.nodes > 1 and bool(dice.random() < 0.5)
    sent = seen.done.astype(float) * (BYTES_A_STEP if fleet.nodes > 1 else 0.0)
    count = _Counted(seen.since(seen.time), dice)
    device = 'device="eth0"'
    blocks = [
        _node(metrics.NET_CARRIER_CHANGES.name, device, count(carrier)),
        _node(metrics.NET_SPEED.name, device, speed),
        _node(metrics.NET_ERRORS.name, f'{device},direction="receive"', count(symbols)),
        _node(metrics.NET_DROPS.name, f'{device},direction="receive"', np.zeros(shape)),
        _node(metrics.NET_PHY_ERRORS.name, f'{device},kind="rx_symbol_err_phy"', count(symbols)),
        _node(metrics.TCP_RETRANSMITTED.name, "", count(retransmitted)),
        _node(metrics.TCP_TIMEOUTS.name, "", count(retransmitted * 0.002)),
        *(_node(metrics.NET_BYTES.name, f'{device},direction="{way}"', sent)
          for way in ("receive", "transmit")),
    ]  # fmt: skip
    if infiniband:
        port = 'device="mlx5_0",port="1"'
        return [
            *blocks,
            _node(metrics.IB_RATE.name, port, speed),
            _node(metrics.IB_XMIT_WAIT.name, port, count(paused * CREDIT_TICKS)),
            _node(metrics.IB_ERRORS.name, f'{port.split(",")[0]},kind="symbol_error",port="1"',
                  count(symbols)),
        ]  # fmt: skip
    lane = f'{device},direction="receive",priority="3"'
    return [
        *blocks,
        _node(metrics.NET_PAUSE.name, lane, count(paused * PAUSE_FRAMES)),
        _node(metrics.NET_PAUSE_SECONDS.name, lane, np.cumsum(paused * count.since, axis=0)),
    ]


class _Counted:
    """(T, N) rates a second -> counters that rise by chance."""

    def __init__(self, since: FloatGrid, dice: np.random.Generator) -> None:
        self.since = since
        self._dice = dice

    def __call__(self, rate: FloatGrid) -> FloatGrid:
        return np.cumsum(self._dice.poisson(rate * self.since), axis=0).astype(float)


def _node(metric: str, labels: str, values: FloatGrid) -> Block:
    return Block(metric, labels, About.NODE, values)

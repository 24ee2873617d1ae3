"""What ports tell: InfiniBand or Ethernet, one a rail, and TCP.

A kind of errors that has counted nothing is not told of by itself: the collector folds such series
into one, `kind="other"`, and each is there from its first count on.
"""

from dataclasses import dataclass, field

import numpy as np

from tests.benchmarks.foreign import kinds
from tests.benchmarks.foreign.effects import port_rate
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.scene import Node, summed
from tests.benchmarks.simulated.arrays import Floats
from tests.benchmarks.simulated.samples import labels

RATE = 5e10
"""Bytes a second of a port of InfiniBand; Ethernet has a quarter."""
DIRECTIONS = ("transmit", "receive")


@dataclass
class Port:
    """(scrapes,) counts so far where nothing else is said.

    Attributes:
        rate: Bytes a second; wait counts of ticks in which nothing could be sent.
        errors, hardware: By kind, of the port and of its RDMA engine.
        downs: Of the link, twice each; lost are segments of TCP.
    """

    rate: Floats
    wait: Floats
    downs: Floats
    lost: Floats
    errors: dict[str, Floats] = field(default_factory=dict)
    hardware: dict[str, Floats] = field(default_factory=dict)


def tell(node: Node) -> None:
    """All series of the ports of a node."""
    scene, scenario = node.scene, node.scene.scenario
    communication, length = scenario.communication, scenario.length
    leaving = max(1, sum(near == node.number for near, _ in scene.timeline.network.ends))
    a_step = 1e6
    if scenario.layout.dp > 1:
        moved = RATE * length.step_seconds * communication.share
        a_step = moved * leaving / communication.rails
    again = node.elapsed * 0.02
    decoy = scene.decoys.get("retrans")
    if decoy is not None and scenario.layout.node[decoy] == node.number:
        again = again + node.counted(0.4)
    tcp = communication.fabric == "tcp"
    for rail in range(communication.rails):
        port = _port(node, rail)
        traffic = node.done * a_step + node.elapsed * 1e4
        if tcp:
            _tell_ethernet(node, rail, port, traffic)
            again = again + port.lost + 20 * port.downs
        else:
            _tell_infiniband(node, rail, port, traffic)
    node.add("tcp_retransmitted_segments_total", "", np.floor(900 + again))
    node.add("tcp_timeouts_total", "", 3)
    node.add("tcp_syn_retransmits_total", "", 1)
    segments = 1e9 + node.elapsed * 900 + (node.done * a_step / 4 / 8900 if tcp else 0)
    for direction in DIRECTIONS:
        node.add("tcp_segments_total", labels(direction=direction), segments)


def _port(node: Node, rail: int) -> Port:
    """What faults make of a port."""
    scene, scenario = node.scene, node.scene.scenario
    period = scenario.length.scrape
    port = Port(
        rate=np.full(len(node.times), RATE),
        wait=node.counted(40 * period) * 50.0 + 1e6,
        downs=np.zeros(len(node.times)),
        lost=np.zeros(len(node.times)),
    )
    for fault in scenario.faults:
        if not _touches(fault, node, rail):
            continue
        level = scene.timeline.level(fault)[node.now]
        if fault.kind == "portrate":
            port.rate = np.where(level > 0, RATE * port_rate(fault), port.rate)
        elif fault.kind == "portloss":
            _lose(node, port, 25 * level * period)
        elif fault.kind == "portflap":
            outages = scene.timeline.outages[:, node.number] > 0
            downs = summed(outages.astype(float))[node.done]
            port.errors["link_downed"] = downs
            port.errors["link_error_recovery"] = 2 * downs
            port.downs = downs * 2
        elif fault.kind == "leaf":
            port.wait = port.wait + node.counted(np.maximum(0, 9e3 * level * period)) * 50.0
    if scenario.surroundings.other_traffic:
        seconds = scene.timeline.transfers.mean(1)
        longer = seconds[node.now] > 1.25 * np.median(seconds)
        port.wait = port.wait + node.counted(np.where(longer, 3e3, 0) * period) * 50.0
    return port


def _touches(fault: Fault, node: Node, rail: int) -> bool:
    """Of faults of the network: those of a switch are on all of a node's ports."""
    here = fault.kind in kinds.NETWORK_FAULTS and node.number in fault.nodes
    return here and (fault.kind == "leaf" or fault.rail == rail)


def _lose(node: Node, port: Port, a_scrape: Floats) -> None:
    """Fills counters of a port that makes so many symbol errors."""
    symbols = node.counted(a_scrape)
    port.errors["symbol_error"] = np.minimum(65535, symbols)  # the register has 16 bits
    port.errors["port_rcv_errors"] = node.counted(a_scrape * 0.3)
    port.errors["local_link_integrity_errors"] = node.counted(a_scrape * 0.02)
    port.hardware["out_of_sequence"] = node.counted(a_scrape * 2)
    port.hardware["packet_seq_err"] = node.counted(a_scrape)
    port.lost = node.counted(a_scrape * 1.5)


def _tell_infiniband(node: Node, rail: int, port: Port, traffic: Floats) -> None:
    device = {"device": f"mlx5_{rail}", "port": "1"}
    name = labels(**device)
    node.add("ib_port_state_id", name, 4)
    node.add("ib_port_physical_state_id", name, 5)
    node.add("ib_port_rate_bytes_per_second", name, port.rate)
    for direction in DIRECTIONS:
        way = labels(**device, direction=direction)
        node.add("ib_port_data_bytes_total", way, 1e15 + traffic)
        node.add("ib_port_packets_total", way, 1e11 + traffic / 4096)
    node.add("ib_port_xmit_wait_total", name, port.wait)
    node.add(
        "ib_info",
        labels(
            **device, netdev=f"ib{rail}", board_id="MT_0000000838", firmware="28.39.1002",
            hca_type="MT4129", link_layer="InfiniBand", numa="0",
            pci_bus_id=f"0000:{16 + rail:02x}:00.0",
        ),
        1,
    )  # fmt: skip
    if node.scene.lacks(kinds.PORT_ERRORS):
        return
    for metric, counts in (
        ("ib_port_errors_total", port.errors),
        ("rdma_hw_counters_total", port.hardware),
    ):
        node.add(metric, labels(**device, kind="other"), 0)
        for kind, values in counts.items():
            told = np.where(values > 0, values, np.nan)
            node.add(metric, labels(**device, kind=kind), told)


def _tell_ethernet(node: Node, rail: int, port: Port, traffic: Floats) -> None:
    device = f"eth{rail}"
    name = labels(device=device)
    node.add("net_up", name, 1)
    node.add("net_speed_bytes_per_second", name, port.rate / 4)
    node.add("net_mtu_bytes", name, 9000)
    node.add("net_carrier_changes_total", name, 2 + port.downs)
    for direction in DIRECTIONS:
        way = labels(device=device, direction=direction)
        node.add("net_bytes_total", way, 1e14 + traffic / 4)
        node.add("net_packets_total", way, 1e10 + traffic / 4 / 8900)
        errors = port.errors.get("port_rcv_errors", 0) if direction == "receive" else 0
        node.add("net_errors_total", way, errors)
        node.add("net_drops_total", way, 0)

"""Ports of real machines: sysfs as it was recorded."""

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.samples import network
from lockstep.collector.sources.network.infiniband.errors import InfinibandErrors
from lockstep.collector.sources.network.infiniband.source import Infiniband
from tests.wild import wild


@pytest.fixture
def ports(machine):
    def read(name):
        """(values by metric and labels, reasons of what was left out)"""
        root = machine.sys / "class/infiniband"
        root.parent.mkdir(parents=True, exist_ok=True)
        root.symlink_to(wild(f"infiniband/{name}"))
        values, reasons = {}, []
        for source, collect in (
            (Infiniband(machine.sys), network.collect_infiniband),
            (InfinibandErrors(machine.sys), network.collect_infiniband_errors),
        ):
            reading = source.read()
            reasons += [one.reason for one in reading.rejected]
            values |= {(s.metric, *s.labels): s.value for s in collect(reading)}
        return values, reasons

    return read


def of(values, metric):
    return {key[1:]: value for key, value in values.items() if key[0] is metric}


def test_a_node_of_eight_ports_and_a_bond(ports):
    values, reasons = ports("h100-8x-ndr-plus-bluefield-bond")
    rates, saturated = of(values, m.IB_RATE), of(values, m.IB_SATURATED)

    assert {"saturated"} == {*reasons}
    assert 9 == len(rates)
    assert 25e9 == rates.pop(("mlx5_bond_0", "1"))
    assert {50e9} == {*rates.values()}
    info = {key[0]: key for key in of(values, m.IB_INFO)}
    assert "Ethernet" in info["mlx5_bond_0"]
    overruns = {key[0] for key in saturated if key[2] == "excessive_buffer_overrun_errors"}
    assert set(info) - {"mlx5_bond_0"} == overruns, "Ethernet has no such buffer"
    assert not [key for key in of(values, m.IB_ERRORS) if key[2] in
                ("excessive_buffer_overrun_errors",)]  # fmt: skip


def test_a_port_with_four_registers_at_their_end(ports):
    values, _ = ports("h100-mlx5_1-saturated-gpud-pr943")
    stand = {"port_xmit_wait", "link_downed", "port_xmit_discards",
             "excessive_buffer_overrun_errors"}  # fmt: skip

    assert stand == {key[2] for key in of(values, m.IB_SATURATED)}
    assert not of(values, m.IB_XMIT_WAIT)
    assert not stand & {key[2] for key in of(values, m.IB_ERRORS)}
    assert 4 * 205143497464492 == values[m.IB_DATA, "mlx5_1", "1", "transmit"]


def test_ports_of_three_makers(ports):
    values, _ = ports("procfs-hfi1-mlx4-mlx5")

    assert 4 == len(of(values, m.IB_STATE))
    assert {"hfi1_0", "mlx4_0", "mlx5_0"} == {key[0] for key in of(values, m.IB_STATE)}

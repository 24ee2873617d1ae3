"""`ethtool -S` of real machines: what is known by its driver's name."""

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.samples import network
from lockstep.collector.sources.network.ethtool.names import meaning
from lockstep.collector.sources.network.ethtool.source import Ethtool
from tests.wild import wild


def statistics(name):
    """As the driver told them: names and values."""
    rows = (line.rpartition(":") for line in wild(f"ethtool/{name}.txt").read_text().splitlines())
    return {key.strip(): int(value) for key, _, value in rows if value.strip().isdigit()}


@pytest.mark.parametrize(
    ("name", "least"),
    [("ethq-mlx5_core", 20), ("ethq-ena", 2), ("ethq-ice", 26), ("ethq-iavf", 2),
     ("ethq-virtio_net", 0), ("node-exporter-eth0", 1)],
)  # fmt: skip
def test_so_many_are_understood(network_node, name, least):
    told = statistics(name)
    nics = network_node.FakeNics({"eth0": told})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()

    assert least <= sum(meaning(each) is not None for each in told)
    assert () == reading.rejected
    assert bool(least) == bool([*network.collect_ethernet(reading)])


def test_drops_of_a_port_are_told(network_node):
    nics = network_node.FakeNics({"eth0": statistics("node-exporter-eth0")})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()

    assert [m.NET_PHY_ERRORS(12028, "eth0", "port.rx_dropped")] == [
        *network.collect_ethernet(reading)
    ]

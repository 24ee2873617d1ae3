"""The collector's program among network cards that do not exist.

`python -m tests.benchmarks.collector_program TABLE ...`: TABLE stands for /proc/net/dev, and the
drivers that ethtool asks are made up, in this process: what they cost counts as the collector's.
One port has errors, the others have none.
"""

import sys
from pathlib import Path

from lockstep.collector import registry
from lockstep.collector.__main__ import main
from lockstep.collector.sources.network.ethtool import source as ethtool
from lockstep.collector.sources.network.netdev.devices import Devices
from tests.collector.network_node import FakeNics, mlx5_statistics

PORTS = 10


def run(table: Path, arguments: list[str]) -> int:
    """The collector, until it is told to stop; its exit code."""

    class Table(Devices):
        def __init__(
            self, proc: Path, sys: Path, *, virtual: bool = False, nodes_sysfs: bool = False
        ) -> None:
            super().__init__(proc, sys, virtual=virtual, nodes_sysfs=nodes_sysfs)
            self.table = table

    told = mlx5_statistics()
    healthy = {name: 0 if name.endswith("_phy") else value for name, value in told.items()}
    nics = FakeNics({f"eth{number}": healthy if number else told for number in range(PORTS)})
    nics.drivers["eno1"] = {"rx_packets": 20, "rx_bytes": 2000}
    setattr(registry, Devices.__name__, Table)
    setattr(ethtool, ethtool.Kernel.__name__, nics.open)
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))

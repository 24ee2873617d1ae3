"""Counters of machines as texts: what is understood of them by key, recorded and mutated."""

import atexit
import json
import random
import tempfile
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path

from lockstep.collector.contract.metrics import Sample
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sampler.reader import plausible
from lockstep.collector.samples import gpu, network
from lockstep.collector.sources.gpu import dcgm_exporter
from lockstep.collector.sources.network.ethtool.names import known
from lockstep.collector.sources.network.ethtool.source import Ethtool
from lockstep.collector.sources.network.infiniband.errors import InfinibandErrors
from lockstep.collector.sources.network.infiniband.source import Infiniband
from tests.collector.network_node import FakeNics, mlx5_statistics, rdma_port
from tests.mutations import mutated
from tests.wild import SHARED

Values = Mapping[Hashable, float]
WILD = SHARED / "data/wild"


def dcgm_pages() -> list[str]:
    """Pages of dcgm-exporters."""
    who = 'gpu="0", UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3",DCGM_FI_DRIVER_VERSION="550"'
    page = (
        "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n"
        f"DCGM_FI_DEV_SM_CLOCK{{{who}}} 1980\nDCGM_FI_DEV_POWER_USAGE{{{who}}} 650.125\n"
        f"DCGM_FI_DEV_POWER_MGMT_LIMIT{{{who}}} 700.000000\nDCGM_FI_DEV_FB_FREE{{{who}}} 5057\n"
        f'DCGM_FI_DEV_FB_USED{{{who},GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"}} 1024\n'
        f"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION{{{who}}} 9223372036854775794\n"
    )
    return [page, *_texts("dcgm_exporter/*.prom")]


def of_dcgm_page(text: str) -> Values:
    """What the collector tells of one."""
    try:
        return _values(gpu.collect(dcgm_exporter.parse(text)))
    except SourceError:
        return {}


def ethtool_texts() -> list[str]:
    """`ethtool -S`; of thousands of queues' statistics a few stand for all."""
    constructed = "".join(f"     {name}: {n}\n" for name, n in mlx5_statistics(4).items())
    recorded = [
        "".join(
            line for at, line in enumerate(text.splitlines(keepends=True))
            if at % 20 == 0 or known(line.rpartition(":")[0].strip())
        ) for text in _texts("ethtool/*.txt")
    ]  # fmt: skip
    return [constructed, *filter(of_ethtool, recorded)]


def of_ethtool(text: str) -> Values:
    """Without what is summed over lines, of which a part is not told from all; and what is 0 may be
    told with others as one.
    """
    whole = (line.rpartition(":") for line in text.split("\n")[:-1])
    told = {name.strip(): value.strip() for name, _, value in whole}
    driver = {
        name.encode()[:31]: int(value) for name, value in told.items()
        if value.isascii() and value.isdecimal() and int(value) < 1 << 64
        and "\0" not in name  # in a struct it would end the name, in a text it cannot be
        and not ((one := known(name)) and one.part)
    }  # fmt: skip
    nics = FakeNics({"eth0": driver})
    reading = Ethtool(lambda: ["eth0"], nics.open).read()
    return {
        key: value for key, value in _values(network.collect_ethernet(reading)).items()
        if "other" not in str(key) and value != 0
    }  # fmt: skip


def infiniband_ports() -> list[str]:
    """The small files of ports in /sys/class/infiniband: which node, and files that are others."""
    return [json.dumps([number, {}]) for number in range(len(_nodes()))]


def of_infiniband(text: str) -> Values:
    """What both sources tell of a node; of one whose files are its own, whatever the link layer."""
    number, files = json.loads(text)
    node = _nodes()[number]
    if not files:
        return node.whatever_the_layer()
    for place, told in files.items():
        Path(place).write_bytes(told.encode())
    found = node.values()
    for place in files:
        Path(place).write_text(node.files[Path(place)])
    # What is 0 may be told with others as one: then it has no key of its own.
    return {key: value for key, value in found.items() if value != 0}


def mutated_files(text: str, dice: random.Random) -> str:
    """Three files of a port, each `mutated`."""
    number, _ = json.loads(text)
    files = _nodes()[number].files
    touched = dice.sample([file for file in files if "/ports/" in str(file)], 3)
    return json.dumps([number, {str(file): mutated(files[file], dice) for file in touched}])


@cache
def _nodes() -> list["_Node"]:
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    atexit.register(folder.cleanup)
    places = [place for place in sorted(WILD.glob("infiniband/*/*/ports/*")) if place.is_dir()]
    nodes = [_Node(Path(folder.name) / str(number)) for number in range(len(places) + 1)]
    rdma_port(nodes[-1], "mlx5_0", "eth0", "InfiniBand")
    for node, place in zip(nodes, places, strict=False):
        port = node.sys / "class/infiniband/mlx5_0/ports" / place.name
        for file in (*place.glob("*"), *place.glob("*/*")):
            if file.is_file():
                node.file(port / file.relative_to(place), file.read_text())
    return nodes


class _Node:
    """Where files are, and what they hold; `rdma_port` makes its files with this."""

    def __init__(self, folder: Path) -> None:
        self.sys = folder / "sys"
        self.files: dict[Path, str] = {}

    def file(self, path: Path, text: str) -> Path:
        """Write a file and the folders above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.files[path] = text
        return path

    def values(self) -> Values:
        """What both sources tell of it, without what is told with others."""
        ports = network.collect_infiniband(Infiniband(self.sys).read())
        errors = network.collect_infiniband_errors(InfinibandErrors(self.sys).read())
        told = _values([*ports, *errors])
        return {key: value for key, value in told.items() if "other" not in str(key)}

    def whatever_the_layer(self) -> Values:
        """The link layer decides which counters mean something, and not what they are."""
        (layer,) = (file for file in self.files if file.name == "link_layer")
        layer.write_text("")
        unknown = self.values()
        layer.write_text(self.files[layer])
        return {**unknown, **self.values()}


def _values(samples: Iterable[Sample]) -> Values:
    kept, _ = plausible(samples)
    return {
        (one.metric.name, *one.labels): one.value
        for one in kept
        if not one.metric.name.endswith("_info")
    }


def _texts(pattern: str) -> list[str]:
    return [path.read_text() for path in sorted(WILD.glob(pattern))]

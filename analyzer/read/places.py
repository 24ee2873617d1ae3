"""Where nodes stand: leaf switch, rack and storage of each, from `topology.toml`.

    [leaf]
    leaf-7 = ["node-0", "node-1"]

    [rack]
    r12 = ["node-0", "node-1", "node-2", "node-3"]

    [storage]
    nfs-a = ["node-0", "node-1", "node-2", "node-3"]

A node that is not in the file stands nowhere that is known.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.analyzer.shapes.run import LoadError

TOPOLOGY_FILE = "topology.toml"
"""In a run archive, or given by name."""
META_KEY = "topology"
"""Of Run.meta: node -> kind -> name."""
KINDS: tuple[str, ...] = ("leaf", "rack", "storage")
"""What nodes can share, the narrowest first."""
MOST_BYTES = 16 << 20

Places = Mapping[str, Mapping[str, str]]
"""node -> kind -> the name of the part it uses."""


def read(path: Path) -> Places:
    """The places in a topology.toml.

    Raises:
        LoadError: The file is absent, no TOML, or has another shape; the message names the entry.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LoadError(f"{path} is larger than {MOST_BYTES >> 20} MB; it is no topology")
        told = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LoadError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} is no TOML: {str(error).splitlines()[0]}") from None
    places: dict[str, dict[str, str]] = {}
    for kind, parts in told.items():
        if kind not in KINDS or not isinstance(parts, dict):
            raise LoadError(f"{path}: [{kind}] is not one of the tables {', '.join(KINDS)}")
        for name, nodes in parts.items():
            if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
                raise LoadError(f"{path}: {kind}.{name} must be a list of node names")
            for node in nodes:
                other = places.setdefault(node, {}).setdefault(kind, name)
                if other != name:
                    raise LoadError(f"{path}: {node} is in {kind} {other} and in {kind} {name}")
    return places


def merged(some: Places, others: Places) -> Places:
    """Both; where they differ of a node, the others count."""
    return {
        node: {**some.get(node, {}), **others.get(node, {})}
        for node in dict.fromkeys((*some, *others))
    }


def places_of(meta: Mapping[str, Any]) -> Places:
    """The places in a Run's or Grid's meta; none where they are absent or of another shape."""
    told = meta.get(META_KEY)
    if not isinstance(told, Mapping):
        return {}
    return {
        str(node): {kind: each[kind] for kind in KINDS if isinstance(each.get(kind), str)}
        for node, each in told.items()
        if isinstance(each, Mapping)
    }

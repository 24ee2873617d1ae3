"""Hard events of hardware: errors that the driver logged, and GPUs that it no longer counts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lockstep.analyzer.findings.finding import LOST, XID, Detection, Kind, Tier, Who
from lockstep.analyzer.shapes.labels import number, page_label
from lockstep.analyzer.shapes.run import Fact
from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.words import Cause
from lockstep.collector.contract.xid import describe
from lockstep.watch.look.members import Members, clock, who_at
from lockstep.watch.look.snapshot import EVENT_SECONDS

Answer = Iterable[tuple[Mapping[str, str], float]]
Target = tuple[str, str]
Gpu = tuple[str, str]
"""Its node, and its uuid or else its index."""
SETTLE_SECONDS = 45.0
"""A driver that is loaded anew, or a GPU that is reset, is counted again within some scrapes."""


@dataclass(frozen=True, slots=True)
class Event:
    """The newest error of a GPU, and whom it hit.

    Attributes:
        xid: Its number.
        when: Unix seconds.
        whos: The ranks that were on the GPU then, or the GPU alone.
        uuid: Of the GPU; None = not told.
    """

    xid: int
    when: float
    whos: tuple[Who, ...]
    uuid: str | None


def events(
    answer: Answer,
    members: Members,
    nodes: Mapping[Target, str],
    begun: Mapping[str, float],
    known: Mapping[Gpu, Event],
    now: float,
) -> dict[Gpu, Event]:
    """Of each GPU the newest error; whom one hit is said once, whoever comes to the GPU later.

    Args:
        answer: Labels and unix seconds of errors of the hardware.
        members: Of all runs.
        nodes: (job, instance) -> name of the node.
        begun: run -> unix seconds at which it was first told of.
        known: Those of the cycle before.
        now: Unix seconds.
    """
    found = {gpu: one for gpu, one in known.items() if now - one.when < EVENT_SECONDS}
    for labels, when in answer:
        xid, gpu = number(labels, "xid"), gpu_of(labels, nodes)
        before = found.get(gpu)
        if xid is None or (before is not None and when <= before.when):
            continue
        uuid, node = page_label(labels, "uuid"), gpu[0]
        hit = tuple(
            who_at(members, column)
            for column in members.columns_of_uuid.get(uuid, ())
            if str(members.node[column]) == node
            and begun.get(str(members.run[column]), 0.0) <= when
        )
        # Nobody is there any more: it goes on with those whom the error before hit.
        alone = (Who("", node, None, number(labels, "gpu"), None),)
        found[gpu] = Event(xid, when, hit or (before.whos if before else alone), uuid or None)
    return found


def xids(told_now: Mapping[Gpu, Event]) -> Iterator[Detection]:
    """Each error as a culprit of the runs that it hit, or of none."""
    for (node, name), event in told_now.items():
        for who in event.whos:
            gpu = name if who.gpu is None else who.gpu
            words = (
                f"XID {event.xid} ({describe(event.xid).text}) on GPU {gpu} of {node}"
                f" at {clock(event.when)}"
            )
            run = f" of run {who.run}" if who.run else ""
            rank = f", which works for rank {who.rank}{run}" if who.rank is not None else ""
            yield Detection(
                who=who,
                kind=Kind.EVENT,
                scope="gpu",
                cause=str(Cause.XID),
                tier=Tier.PAGE,
                confidence=0.99,
                sentence=f"The driver logged {words}{rank}.",
                onset=event.when,
                sure=True,
                facts=(Fact(True, words, m.GPU_XID_LAST.name),),
                uuid=event.uuid,
                signature=f"{XID}{event.xid}",
            )


def lost(answer: Answer, nodes: Mapping[Target, str], now: float) -> Iterator[Detection]:
    """Nodes whose driver counts fewer GPUs than stand on the bus; 0 of a node is none."""
    for labels, count in answer:
        if not count > 0:
            continue
        node = node_of(labels, nodes)
        words = f"{node} has lost {count:.0f} GPU{'s' if count > 1 else ''}"
        yield Detection(
            who=Who("", node, None, None, None),
            kind=Kind.EVENT,
            scope="node",
            cause=str(Cause.XID),
            tier=Tier.PAGE,
            confidence=0.99,
            sentence=f"{words}: the driver counts fewer than stand on the PCI bus.",
            onset=now,
            sure=True,
            facts=(Fact(True, words, f"{m.GPU_EXPECTED.name} - {m.GPU_PRESENT.name}"),),
            settle=SETTLE_SECONDS,
            signature=LOST,
        )


def node_of(labels: Mapping[str, str], nodes: Mapping[Target, str]) -> str:
    """The node that a target's series are of."""
    target = labels.get("job", ""), labels.get("instance", "")
    return nodes.get(target) or labels.get("node", "") or target[1]


def gpu_of(labels: Mapping[str, str], nodes: Mapping[Target, str]) -> Gpu:
    """The GPU that an error is of."""
    return node_of(labels, nodes), page_label(labels, "uuid") or page_label(labels, "gpu")


def node_names(
    answer: Answer, members: Members, known: Mapping[Target, tuple[str, float]] | None = None
) -> dict[Target, str]:
    """The node behind each target: as its ranks say, or its label `node`, or its address.

    Args:
        answer: Of each collector: labels, and anything.
        members: Of all runs.
        known: Target -> what its ranks said while some were there, and when.
    """
    found: dict[Target, str] = {}
    for labels, _ in answer:
        target = labels.get("job", ""), labels.get("instance", "")
        before = "" if known is None or target not in known else known[target][0]
        found[target] = labels.get("node", "") or before or target[1]
    rows = zip(members.job.tolist(), members.instance.tolist(), members.node.tolist(), strict=True)
    found.update({(job, instance): node for job, instance, node in rows})
    return found


# Inventory: nodes, NVLinks and ports that were there in the last day.

KEEP_SECONDS = 86_400.0
"""A node that is taken away for good is missed for a day."""

Names = tuple[str, ...]
Seen = Mapping[Names, tuple[float, float]]
"""Names -> (the most that was there at once, unix seconds at which something last was)."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """By (node,), by (node, gpu, uuid) and by (node, device, port)."""

    nodes: Seen = field(default_factory=dict)
    links: Seen = field(default_factory=dict)
    ports: Seen = field(default_factory=dict)


def seen(
    known: Seen, there: Iterable[tuple[Names, float]], now: float
) -> dict[Names, tuple[float, float]]:
    """With what is there now; what has not been for a day is forgotten.

    Args:
        known: As it was.
        there: Names and how many; none of them is not there.
        now: Unix seconds.
    """
    found = {name: one for name, one in known.items() if abs(now - one[1]) < KEEP_SECONDS}
    for name, count in there:
        if count > 0:
            found[name] = max(count, found.get(name, (0.0, 0.0))[0]), now
    return found


def updated(
    known: Inventory,
    pages: Answer,
    links: Answer | None,
    ports: Answer | None,
    names: Mapping[Target, str],
    now: float,
) -> Inventory:
    """What is there now joined to what was; nodes by the label that alerts know them by.

    Args:
        known: As it was.
        pages: Of each collector that was scraped.
        links: NVLinks up by GPU; None = not asked this time.
        ports: Whether ports are active; None as well.
        names: Names of nodes whose targets have no label `node`.
        now: Unix seconds.
    """

    def there(answer: Answer, *labels: str) -> list[tuple[Names, float]]:
        return [
            ((_node(told, names), *(told.get(label, "") for label in labels)), value)
            for told, value in answer
        ]

    nodes = [(node, 1.0) for node, _ in there(pages)]
    return Inventory(
        seen(known.nodes, nodes, now),
        known.links if links is None else seen(known.links, there(links, "gpu", "uuid"), now),
        known.ports if ports is None else seen(known.ports, there(ports, "device", "port"), now),
    )


def _node(labels: Mapping[str, str], names: Mapping[Target, str]) -> str:
    return labels.get("node", "") or node_of(labels, names)

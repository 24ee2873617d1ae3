"""Hard events of hardware: errors that the driver logged, and GPUs that it no longer counts."""

from collections.abc import Iterable, Iterator, Mapping

from analyzer.load.prometheus.labels import number, told
from analyzer.run import Fact
from analyzer.watch.finding import Kind, Sighting, Tier, Who
from analyzer.watch.members import Members
from analyzer.watch.sightings import clock, who_at
from collector.contract import metrics as m
from collector.contract.words import Cause
from collector.contract.xid import describe

Answer = Iterable[tuple[Mapping[str, str], float]]
Target = tuple[str, str]


def xids(answer: Answer, members: Members, nodes: Mapping[Target, str]) -> Iterator[Sighting]:
    """Of each GPU the newest error, as a culprit of the runs on it, or of none.

    Args:
        answer: Labels and unix seconds of errors of the hardware.
        members: Of all runs.
        nodes: (job, instance) -> name of the node.
    """
    newest: dict[tuple[str, str], tuple[Mapping[str, str], float]] = {}
    for labels, when in answer:
        key = node_of(labels, nodes), told(labels, "uuid") or told(labels, "gpu")
        if key not in newest or when > newest[key][1]:
            newest[key] = labels, when
    for (node, _), (labels, when) in newest.items():
        xid = number(labels, "xid")
        if xid is None:
            continue
        uuid, gpu = told(labels, "uuid"), number(labels, "gpu")
        here = [
            column
            for column in members.columns_of_uuid.get(uuid, ())
            if str(members.node[column]) == node
        ]
        for who in [who_at(members, column) for column in here] or [Who("", node, None, gpu, None)]:
            words = f"XID {xid} ({describe(xid).text}) on GPU {gpu} of {node} at {clock(when)}"
            run = f" of run {who.run}" if who.run else ""
            rank = f", which works for rank {who.rank}{run}" if who.rank is not None else ""
            yield Sighting(
                who=who,
                kind=Kind.EVENT,
                scope="gpu",
                cause=str(Cause.XID),
                tier=Tier.PAGE,
                confidence=0.99,
                sentence=f"The driver logged {words}{rank}.",
                onset=when,
                sure=True,
                facts=(Fact(True, words, m.GPU_XID_LAST.name),),
                uuid=uuid or None,
            )


def lost(answer: Answer, nodes: Mapping[Target, str], now: float) -> Iterator[Sighting]:
    """Nodes whose driver counts fewer GPUs than stand on the bus."""
    for labels, count in answer:
        node = node_of(labels, nodes)
        words = f"{node} has lost {count:.0f} GPU{'s' if count > 1 else ''}"
        yield Sighting(
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
        )


def node_of(labels: Mapping[str, str], nodes: Mapping[Target, str]) -> str:
    """The node that a target's series are of."""
    target = labels.get("job", ""), labels.get("instance", "")
    return nodes.get(target) or labels.get("node", "") or target[1]


def node_names(answer: Answer, members: Members) -> dict[Target, str]:
    """The node behind each target: as its ranks say, or its label `node`, or its address."""
    found: dict[Target, str] = {}
    for labels, _ in answer:
        target = labels.get("job", ""), labels.get("instance", "")
        found[target] = labels.get("node", "") or target[1]
    rows = zip(members.job.tolist(), members.instance.tolist(), members.node.tolist(), strict=True)
    found.update({(job, instance): node for job, instance, node in rows})
    return found

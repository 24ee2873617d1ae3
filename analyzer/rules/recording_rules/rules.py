"""Recording rules that compute robust z-scores of ranks against their stratum, as YAML.

For a signal X of the ranks of a stratum (docs/method/recording-rules.md):

    med = median(X),  mad = median(|X - med|),  z = (X - med) / (1.4826 mad + floor + share |med|)

with `lockstep:X:avg1m`, `:med`, `:mad`, `:z` and `:count`, the ranks that answered. The text is
written by hand and in order: the same for every version of every YAML library, and none needed.
"""

from collections.abc import Iterator

from lockstep.analyzer.rules.recording_rules.ledger import ledger_rules
from lockstep.analyzer.rules.recording_rules.signals import (
    PLACE,
    PLACE_LABELS,
    SIGNALS,
    STRATUM,
    WINDOW,
    Signal,
)
from lockstep.collector.contract import metrics
from lockstep.collector.contract.robust import MAD_TO_SIGMA

INTERVAL = "15s"
"""Between evaluations: that of the scrapes."""
RANKS = "lockstep:rank:count"
AS_MANY = 0.9
"""Share of the collectives of the rank that reported most, which every other must have reported."""
HEAD = (
    "# Peer statistics of training runs, computed inside Prometheus, Thanos or Mimir.\n"
    "# Load it where all ranks of a run are seen together: in the Prometheus that scrapes them,\n"
    "# or in the ruler of Thanos or Mimir. It needs two scrapes of each page a minute.\n"
    "# Generated: `lockstep rules` prints this file; do not edit it.\n"
)


def rules() -> str:
    """The rule file.

    A group a signal: groups run beside each other, and rules of one group in order. Signals read
    the ranks' places as they were at most one interval ago.
    """
    parts = [HEAD, "groups:\n"]
    parts += _group("lockstep-place", _place_rules())
    for signal in SIGNALS:
        parts += _group(f"lockstep-{signal.name.replace('_', '-')}", _peer_rules(signal))
    parts += _group("lockstep-nccl-rank-wait", _nccl_wait_rules())
    parts += _group("lockstep-ledger", ledger_rules())
    return "".join(parts)


def recorded_series() -> tuple[str, ...]:
    """Every name that the rules record."""
    names = [name for name, _ in _place_rules()]
    names += [name for name, _ in (*_nccl_wait_rules(), *ledger_rules())]
    return (*names, *(name for signal in SIGNALS for name, _ in _peer_rules(signal)))


def _place_rules() -> Iterator[tuple[str, str]]:
    """Where ranks are: one series each, whatever number of pages and attempts reports them.

    Only of processes that live: the page of a node that a rank left reports it for ten minutes.
    Where the target has a label `node`, Prometheus calls the page's `exported_node`.
    """
    labels = ", ".join(("run", "rank", *PLACE_LABELS))
    same = "on (job, instance, run, rank)"
    info = f'label_replace({metrics.RANK_INFO.name}, "node", "$1", "exported_node", "(.+)")'
    yield (
        PLACE,
        (
            f"topk by (run, rank) (1,\n  max by ({labels}) (\n    {info}\n"
            f"    and {same} {metrics.RANK_UP.name} == 1\n  )\n)"
        ),
    )
    yield RANKS, f"count by (run, world_size) ({PLACE})"


def _nccl_wait_rules() -> Iterator[tuple[str, str]]:
    """What each rank of a communicator waits more than the one that waits least, by NCCL Inspector.

    Of a minute: per collective the least is not in counters, but who waits least is, and by how
    much less. Only where all ranks reported, and of as many collectives (docs/method/durations.md).
    """
    by = "run, group, communicator"
    seconds, counts = "lockstep:nccl_rank_seconds:rate1m", "lockstep:nccl_rank_collectives:rate1m"
    for recorded, metric in (
        (seconds, metrics.NCCL_RANK_SECONDS), (counts, metrics.NCCL_RANK_COLLECTIVES),
    ):  # fmt: skip
        yield recorded, f"sum by ({by}, rank) (rate({metric.name}[{WINDOW}]))"
    more = f"{seconds}\n- on ({by}) group_left ()\nmin by ({by}) ({seconds})"
    told = f"count by ({by}) ({seconds})\n== on ({by})"
    told += f"\nmax by ({by}) ({metrics.NCCL_INSPECTOR_RANKS.name})"
    alike = f"min by ({by}) ({counts})\n> on ({by})\n{AS_MANY} * max by ({by}) ({counts})"
    yield (
        "lockstep:nccl_rank_wait:rate1m",
        f"(\n{more}\n)\nand on ({by})\n(\n{told}\n)\nand on ({by})\n(\n{alike}\n)",
    )


def _peer_rules(signal: Signal) -> Iterator[tuple[str, str]]:
    by = ", ".join(STRATUM)
    avg, med, mad = (signal.recorded(suffix) for suffix in ("avg1m", "med", "mad"))
    match = f"on ({by}) group_left ()"
    for suffix, expression in signal.steps:
        yield signal.recorded(suffix), expression
    yield signal.recorded("count"), f"count by ({by}) ({avg})"
    yield med, f"quantile by ({by}) (0.5, {avg})"
    yield mad, f"quantile by ({by}) (0.5, abs({avg} - {match} {med}))"
    yield signal.recorded("z"), f"({avg} - {match} {med})\n/ {match}\n({spread(signal, mad, med)})"


def spread(signal: Signal, mad: str, med: str) -> str:
    """The denominator of z: the robust standard deviation and its floor, in PromQL."""
    terms = [f"{MAD_TO_SIGMA} * {mad}"]
    if signal.share:
        terms.append(f"{signal.share:g} * abs({med})")
    if signal.floor:
        terms.append(f"{signal.floor:g}")
    return " + ".join(terms)


def _group(name: str, named: Iterator[tuple[str, str]]) -> Iterator[str]:
    yield f"- name: {name}\n  interval: {INTERVAL}\n  rules:\n"
    for record, expression in named:
        yield f"  - record: {record}\n    expr: |-\n"
        yield "".join(f"      {line}\n" for line in expression.splitlines())

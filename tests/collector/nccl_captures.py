"""What real machines printed of NCCL, what each parser understands of it, by key.

Used by tests of whole samples and of mutated ones. Where nobody recorded a form, a constructed one
stands for it.
"""

import json
from collections.abc import Iterator

from lockstep.analyzer.read.prometheus.kubernetes import LABELS, read_labels, series_label
from lockstep.collector.formats.flight_recorder.dump import parse as parse_dump
from lockstep.collector.formats.flight_recorder.pickled import as_json
from lockstep.collector.formats.nccl_inspector import batches
from lockstep.collector.readings.source import SourceError
from lockstep.collector.sources.nccl.ras import document, text
from lockstep.collector.sources.nccl.ras.status import UNKNOWN, Status
from tests.wild import wild

Values = dict[object, object]

DEAD_REPORT = """NCCL version 2.30.7+cuda12.9 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 13000

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.053s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        30   RUNNING  INCOMPLETE,ERROR,MISMATCH
    1         1         4         1         4         2  FINALIZE  MISMATCH
    2         6         4         1         4        24   RUNNING      OK

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487985 on node 172.16.64.213 managing GPU 6 (NVML 5)

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 21 -- GPU 5 managed by process 3487984 on node 172.16.64.213
  Rank 22 -- GPU 6 (NVML 5) managed by process 3487985 on node 172.16.64.213

#0-0 (cf264af53edbe986) ERROR
  Initialization error on 1 rank
  Rank 3 reported System error -- GPU 3 managed by process 483075 on node 172.16.64.210
  Asynchronous errors on 3 ranks
  2 ranks reported Remote process error
  Rank 20 -- GPU 4 managed by process 3487983 on node 172.16.64.213
  Rank 23 -- GPU 7 managed by process 3487986 on node 172.16.64.213
  Rank 19 reported Internal error -- [process information not found]

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different ReduceScatter operation counts
  29 ranks have launched up to operation 12
  Rank 7 has launched up to operation 11 -- GPU 7 managed by process 483079 on node 172.16.64.210

  Communicator ranks have different AllReduce operation counts
  27 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 4 -- GPU 4 managed by process 483076 on node 172.16.64.210
  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210
  Rank 6 has not launched any operations -- GPU 6 managed by process 483078 on node 172.16.64.210

#1-0 (22a9) MISMATCH
  Communicator ranks have different status
  2 ranks have status NOCOMM
  Rank 0 has status RUNNING -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 1 has status FINALIZE -- GPU 0 managed by process 1598388 on node 172.16.64.212
  Communicator ranks have different Broadcast operation counts
  Rank 0 has launched up to operation 4 -- GPU 0 managed by process 483072 on node 172.16.64.210
  Rank 1 has launched up to operation 5 -- GPU 0 managed by process 1598388 on node 172.16.64.212

"""
"""Every block that NCCL 2.30 has (src/ras/client_support.cc), as nobody recorded them together."""


def _marker(identity: str, records: int) -> str:
    header = {"id": identity, "rank": 2, "n_ranks": 8, "nnodes": 1}
    metadata = {"inspector_output_format_version": "v4.3", "git_rev": "", "pid": 1639453}
    stats = {"coll_records": records, "coll_dropped_total": 0, "p2p_records": 0}
    return _line({"header": header, "metadata": metadata, "dump_stats": stats})


def _record(sequence: int, microseconds: int) -> str:
    size = 1 << 20
    gigabytes = size / microseconds / 1e3
    return _line({"coll_perf": {
        "coll": "AllReduce", "coll_algo": "RING", "coll_proto": "LL", "coll_sn": sequence,
        "coll_msg_size_bytes": size, "coll_exec_time_us": microseconds,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": round(gigabytes, 6),
        "coll_busbw_gbs": round(1.75 * gigabytes, 6),
    }})  # fmt: skip


def _line(tree: object) -> str:
    return json.dumps(tree, separators=(",", ":")) + "\n"


MARKED = "".join((
    _marker("0x7f8c496ae9f661", 2), _record(1407, 61), _record(1408, 63),
    _marker("0xe62dedaa97644a", 1), _record(7, 410), _marker("0x7f8c496ae9f661", 0),
    _marker("0x7f8c496ae9f661", 1), _record(1409, 62),
))  # fmt: skip
"""Inspector v4.3, as the README of nccl's pull request 2359 shows it."""


def _files(folder: str, ending: str) -> Iterator[str]:
    for path in sorted(wild(folder).glob(f"*{ending}")):
        yield path.read_text("utf-8")


def ras_documents() -> list[str]:
    """Answers in JSON."""
    return list(_files("nccl_ras", ".json"))


def ras_reports() -> list[str]:
    """Answers in text."""
    return [*_files("nccl_ras", ".txt"), DEAD_REPORT]


def inspector_files() -> list[str]:
    """Files of Inspector."""
    return [*_files("nccl_inspector", ".jsonl"), MARKED]


def dumps() -> list[str]:
    """Dumps of the flight recorder as JSON in lines; a pickle that is cut is no pickle at all."""
    paths = [path for one in sorted(wild("flight_recorder").iterdir())
             for path in sorted(one.glob("_dump_*"))]  # fmt: skip
    return [json.dumps(json.loads(as_json(path.read_bytes())), indent=1) for path in paths]


def label_tables() -> list[str]:
    """Labels of nodes: cloud, label, value, source."""
    return list(_files("node_labels", ".tsv"))


def of_document(answer: str) -> Values:
    """Of RAS' JSON."""
    try:
        return _of_status(document.parse(answer))
    except SourceError:
        return {}


def of_report(answer: str) -> Values:
    """Of RAS' text."""
    try:
        return _of_status(text.parse(answer))
    except SourceError:
        return {}


def _of_status(status: Status) -> Values:
    found: Values = {("kinds", *key): count for key, count in status.kinds.items()}
    found["seconds"] = status.collection_seconds
    found["timeouts"] = status.timeouts
    found["version"] = status.version
    for one in status.communicators:
        key = one.group
        found[key, "size"], found[key, "missing"] = one.size, one.missing
        found |= {(key, "launched", op): both for op, both in (one.launched or {}).items()}
        if UNKNOWN not in (one.status, one.health) and status.whole:
            found[key, "condition"] = (one.status, one.health)
        for rank in one.ranks:
            place = (key, rank.rank)
            found |= {(*place, "launched", op): n for op, n in rank.launched.items()}
            found |= {(*place, state): True for state in rank.states}
            found[*place, "host"] = None if rank.host == UNKNOWN else rank.host
            found[*place, "pid"] = rank.pid
    return {key: value for key, value in found.items() if value is not None}


def of_inspector(lines: str) -> Values:
    """Of Inspector: a collective's size and duration by communicator, kind and number."""
    found: Values = {}
    batched, _ = batches(lines.encode("utf-8", "surrogatepass").split(b"\n")[:-1])
    for batch in batched:
        who, rank = batch.operation._replace(rank=-1), batch.operation.rank
        for row in zip(batch.sequences, batch.sizes, batch.seconds, strict=True):
            found[*who, row[0]] = row[1:]
            if rank >= 0:  # else it is not known whose
                found[*who, row[0], "rank"] = rank
    return found


def of_dump(dump: str) -> Values:
    """Of the flight recorder: how far a rank got in each group."""
    try:
        read = parse_dump(dump.encode("utf-8", "surrogatepass"), "", 0, 2e9)
    except SourceError:
        return {}
    found: Values = {}
    for one in read.groups:
        found[one.name, "members"] = one.members or None
        for name in ("enqueued", "started", "completed"):
            found[one.name, name] = getattr(one, name)
        found |= {(one.name, each.sequence): (each.op, each.waited_seconds) for each in one.open}
    return {key: value for key, value in found.items() if value is not None}


def of_labels(table: str) -> Values:
    """Of node labels: the places of nodes with one label each; one without a value gets one."""
    nodes = []
    for number, line in enumerate(table.split("\n")[:-1]):
        _, label, value, *_ = [*line.split("\t"), "", "", ""]
        nodes.append({"node": f"node-{number}", series_label(label): value or "7"})
    names = {kind: [series_label(one) for one in each] for kind, each in LABELS.items()}
    places, _ = read_labels(nodes, names)
    return {item: True for each in places.values() for item in each.items()}

"""Tables of a made-up run: steps, samples and operations as arrays, at any length."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from lockstep.collector.contract import archive
from lockstep.collector.contract.words import CLOCK_EVENT_REASONS, PHASES
from lockstep.collector.recorder.parts import arrow_schema

PARTS = {"data": 0.04, "forward": 0.31, "backward": 0.55, "optimizer": 0.08, "other": 0.02}
"""Shares of own time."""
EXCHANGED = 1 << 20
"""Bytes of the gradients' all-reduce."""


def steps(made: Any) -> dict[str, np.ndarray]:
    """(S, R) by column of contract.archive.STEPS; `made` is archives.Made."""
    dice = np.random.default_rng(made.seed)
    shape = (made.steps, made.ranks)
    own = made.step_seconds * (1 + 0.02 * dice.standard_normal(shape))
    if made.slow is not None:
        own[made.onset :, made.slow] *= made.factor
    for rank, step, factor in made.spikes:
        own[step, rank] *= factor
    tags = np.full(made.steps, "", dtype=object)
    tags[:3] = "warmup"
    if made.checkpoint_every:
        tags[made.checkpoint_every :: made.checkpoint_every] = "checkpoint"
    saved = np.where(tags == "checkpoint", 2 * made.step_seconds, 0.0)[:, None]
    wall = own.max(axis=1, keepdims=True) + 0.05 * made.step_seconds + saved
    start = made.start + np.cumsum(wall[:, 0]) - wall[:, 0]
    number = np.arange(made.steps)[:, None]
    loss = 2.3 + 2.0 * np.exp(-number / (made.steps / 4)) + 0.02 * dice.standard_normal(shape)
    columns: dict[str, Any] = {
        "step": number, "rank": np.arange(made.ranks)[None, :], "attempt": 0,
        "start": start[:, None], "wall_seconds": wall, "cpu_seconds": 0.3 * own,
        "own_seconds": own + saved,
        **{f"{phase}_seconds": PARTS.get(phase, 0.0) * own for phase in PHASES},
        "grad_sync_seconds": wall - own - saved, "checkpoint_seconds": saved,
        "wait_seconds": wall - own - saved,
        "tags": tags[:, None], "loss": loss, "samples": 4, "tokens": 512, "flops": 1e9,
    }  # fmt: skip
    return {name: np.broadcast_to(columns[name], shape) for name in _names(archive.STEPS)}


def step_table(cells: dict[str, np.ndarray]) -> pa.Table:
    """As the recorder writes them: step by step, rank by rank."""
    return _table({name: values.ravel() for name, values in cells.items()}, archive.STEPS)


def operations(made: Any, cells: dict[str, np.ndarray]) -> pa.Table:
    """Five operations a step and rank; the all-reduce begins when a rank arrives."""
    own, start, wall = (cells[name] for name in ("own_seconds", "start", "wall_seconds"))
    kinds = ("data-load", "forward-compute", "backward-compute", "dp-all-reduce", "optimizer")
    edges = [0.0, 0.04, 0.35, 0.90]
    begin = np.stack([start + share * own for share in edges] + [start + wall - 0.1 * own], axis=-1)
    end = np.concatenate([begin[..., 1:], (start + wall)[..., None]], axis=-1)
    shape = begin.shape
    kind = np.broadcast_to(np.arange(len(kinds)), shape)
    step = np.broadcast_to(cells["step"][..., None], shape)
    rank = np.broadcast_to(cells["rank"][..., None], shape)
    together = kind == 3
    compute = (kind == 1) | (kind == 2)
    columns: dict[str, Any] = {
        "dp_rank": rank, "stage": 0, "rank": rank, "step": step,
        "optype": np.array(kinds, dtype=object)[kind],
        "start_ts": begin - start.min(axis=1)[:, None, None], "duration": end - begin,
        "seq_id": 0, "mc": np.where(compute, 0, -1), "gmc": np.where(compute, 0, -1),
        "mb_id": np.where(compute, 0, -1), "tp_rank": 0,
        "group": np.where(together, "dp", ""), "sequence": np.where(together, step + 1, 0),
        "bytes": np.where(together, EXCHANGED, 0),
        "start_ns": (begin * 1e9).astype(np.int64), "end_ns": (end * 1e9).astype(np.int64),
        "flags": "", "tag": "",
    }  # fmt: skip
    flat = {name: np.broadcast_to(columns[name], shape).ravel() for name in _names(archive.OPS)}
    return _table(flat, archive.OPS)


def samples(made: Any, cells: dict[str, np.ndarray]) -> pa.Table:
    """What scrapes saw, in the order of time."""
    ends = (cells["start"] + cells["wall_seconds"])[:, 0]
    times = np.arange(made.start + 0.3, ends[-1] + made.scrape_seconds, made.scrape_seconds)
    blocks = list(_blocks(made, cells, ends, times))
    width = sum(values.shape[1] for *_, values in blocks)
    node, gpu, rank, metric, labels = (np.empty(width, dtype=object) for _ in range(5))
    at, value = 0, np.empty((len(times), width))
    for name, text, about, values in blocks:
        count = values.shape[1]
        here = slice(at, at + count)
        place = np.arange(count)
        each = made.ranks_per_node + (made.spare_gpus if about == "gpu" else 0)
        on = place if about == "node" else place // each
        node[here] = np.array(made.node_names, dtype=object)[on]
        gpu[here] = list(place % each) if about == "gpu" else None
        rank[here] = list(place) if about == "rank" else None
        metric[here], labels[here], value[:, here] = name, text, values
        at += count

    def repeated(column: np.ndarray, kind: pa.DataType) -> pa.Array:
        words = pa.array(list(dict.fromkeys(column)), kind)
        codes = {word: code for code, word in enumerate(dict.fromkeys(column))}
        code = np.array([codes[word] for word in column], dtype=np.int32)
        return words.take(pa.array(np.tile(code, len(times))))

    schema = arrow_schema(archive.SAMPLES)
    table = pa.table({
        "time": pa.array(np.repeat(times, width)), "node": repeated(node, pa.string()),
        "gpu": repeated(gpu, pa.int32()), "rank": repeated(rank, pa.int32()),
        "metric": repeated(metric, pa.string()), "labels": repeated(labels, pa.string()),
        "value": pa.array(value.ravel()),
    })  # fmt: skip
    return table.filter(pa.compute.is_finite(table["value"])).cast(schema)


Block = tuple[str, str, str, np.ndarray]
"""Metric, labels, what it is about (node, gpu or rank), (T, places)."""


def _blocks(
    made: Any, cells: dict[str, np.ndarray], ends: np.ndarray, times: np.ndarray
) -> Iterator[Block]:
    since = times - made.start
    yield from _node_blocks(made, since)
    if made.gpus:
        yield from _gpu_blocks(made, ends, times)
    done = np.searchsorted(ends, times, side="right")
    last = np.clip(done - 1, 0, None)

    def rank(metric: str, values: Any, labels: str = "") -> Block:
        return metric, labels, "rank", np.broadcast_to(values, (len(times), made.ranks))

    yield rank("lockstep_rank_up", 1.0)
    yield rank("lockstep_train_steps_total", done[:, None])
    yield rank("lockstep_train_known_steps_total", done[:, None])
    yield rank("lockstep_train_heartbeat_age_seconds", 0.4)
    yield rank("lockstep_train_loss", cells["loss"][last])
    for column in ("own", "cpu"):
        total = np.cumsum(cells[f"{column}_seconds"], axis=0)[last]
        yield rank(f"lockstep_train_{column}_seconds_total", total)
    for phase in PHASES:
        total = np.cumsum(cells[f"{phase}_seconds"], axis=0)[last]
        yield rank("lockstep_train_phase_seconds_total", total, f'phase="{phase}"')
    waited = np.cumsum(cells["wall_seconds"] - cells["own_seconds"], axis=0)[last]
    yield rank("lockstep_train_collective_seconds_total", waited, 'group="dp"')
    for metric in ("collectives_total", "enqueued_sequence", "completed_sequence"):
        yield rank(f"lockstep_train_{metric}", done[:, None], 'group="dp"')
    yield rank("lockstep_train_tokens_total", 512.0 * done[:, None])
    yield rank("lockstep_train_model_flops_total", 1e9 * done[:, None])


def _node_blocks(made: Any, since: np.ndarray) -> Iterator[Block]:
    def node(metric: str, values: Any, labels: str = "") -> Block:
        told = np.asarray(values, dtype=np.float64)
        told = told[:, None] if told.ndim == 1 else told
        return metric, labels, "node", np.broadcast_to(told, (len(since), made.nodes))

    up = np.ones((len(since), made.nodes))
    if made.gap is not None:
        silent, first, until = made.gap
        up[(since >= first) & (since < until), silent] = 0.0
    yield node("up", up)
    yield node("lockstep_build_info", 1.0, 'python="3.11.7",version="0.1.0"')
    kernel = 'boot_id="b",emulated="true",hostname="host-a",kernel="6.1.0"'
    yield node("lockstep_node_info", 1.0, kernel)
    yield node("lockstep_host_cpus", 8.0)
    for mode, share in (("user", 4.0), ("system", 1.0), ("iowait", 0.0), ("idle", 3.0)):
        yield node("lockstep_host_cpu_seconds_total", 1e4 + share * since, f'mode="{mode}"')
    yield node("lockstep_host_memory_total_bytes", 6.4e10)
    yield node("lockstep_host_memory_available_bytes", 4e10 - 1e9 * np.sin(since / 100))
    for direction in ("receive", "transmit"):
        labels = f'device="eth0",direction="{direction}"'
        yield node("lockstep_net_bytes_total", 1e9 + 2e7 * since, labels)
        yield node("lockstep_net_errors_total", 0.0, labels)
    flapped = np.zeros((len(since), made.nodes))
    if made.flap is not None:
        flapped[since >= made.flap[1], made.flap[0]] = 2.0
    yield node("lockstep_net_carrier_changes_total", flapped, 'device="eth0"')
    yield node("lockstep_net_up", 1.0, 'device="eth0"')
    for direction in ("read", "write"):
        labels = f'device="sda",direction="{direction}"'
        yield node("lockstep_disk_bytes_total", 1e6 * since, labels)
    yield node("lockstep_clock_synchronized", 1.0)
    yield node("lockstep_clock_offset_seconds", 1e-5)
    yield node("lockstep_clock_max_error_seconds", 0.01)
    for source in ("nvml", "procfs", "rank_ring", "kmsg"):
        yield node("lockstep_source_up", 1.0, f'source="{source}"')
    yield node("lockstep_scrape_duration_seconds", 0.002)
    yield node("lockstep_scrape_series", 214.0)


def _gpu_blocks(made: Any, ends: np.ndarray, times: np.ndarray) -> Iterator[Block]:
    dice = np.random.default_rng(made.seed + 1)
    each = made.ranks_per_node + made.spare_gpus
    shape = (len(times), made.nodes * each)
    hot = np.zeros(shape)

    def column(rank: int) -> int:
        return rank // made.ranks_per_node * each + rank % made.ranks_per_node

    if made.slow is not None:
        hot[times > ends[made.onset], column(made.slow)] = 1.0
    heated = np.cumsum(hot, axis=0) * made.scrape_seconds

    def gpu(metric: str, values: Any, labels: str = "") -> Block:
        return f"lockstep_gpu_{metric}", labels, "gpu", np.broadcast_to(values, shape)

    info = ('cuda="",driver="550.1",firmware="",mig_mode="",minor="",model="Made-up GPU",numa="",'
            'pci_bus_id="",serial="",simulated="true",vbios=""')  # fmt: skip
    yield gpu("info", 1.0, info)
    yield gpu("up", 1.0)
    yield gpu("utilization_ratio", 0.9 - 0.05 * dice.random(shape))
    warmth = 64 + dice.standard_normal(shape) + 28 * hot
    yield gpu("temperature_celsius", warmth, 'sensor="gpu"')
    yield gpu("temperature_limit_celsius", 90.0, 'limit="slowdown"')
    yield gpu("power_watts", 560 - 160 * hot)
    yield gpu("power_limit_watts", 700.0, 'kind="enforced"')
    yield gpu("clock_hertz", 1.98e9 / (1 + (made.factor - 1) * hot), 'domain="sm"')
    yield gpu("clock_max_hertz", 1.98e9, 'domain="sm"')
    yield gpu("memory_used_bytes", 5e10)
    yield gpu("memory_total_bytes", 8.6e10)
    for reason in CLOCK_EVENT_REASONS:
        mine = reason == "hw_thermal"
        yield gpu("clock_event_seconds_total", 0.9 * heated * mine, f'reason="{reason}"')
        yield gpu("clock_event_active", hot * mine, f'reason="{reason}"')
    for kind in ("corrected", "uncorrected"):
        yield gpu("ecc_errors_total", 0.0, f'counter="volatile",type="{kind}"')
    for name, value in (("link_width", 16.0), ("link_generation", 5.0)):
        yield gpu(f"pcie_{name}", value)
        yield gpu(f"pcie_{name}_max", value)
    yield gpu("pcie_replay_total", 0.0)
    for link in range(made.nvlinks):
        yield gpu("nvlink_up", 1.0, f'link="{link}"')
    yield gpu("nvlink_errors_total", 0.0, 'kind="crc_flit",link="all"')
    xids = np.zeros(shape)
    if made.xid is not None:
        xids[times > ends[made.xid[1]], column(made.xid[0])] = 1.0
    for code in (79, 94):
        told = xids if made.xid is not None and made.xid[2] == code else 0.0
        yield gpu("xid_errors_total", told, f'pci_bus_id="",source="kmsg",xid="{code}"')


def _names(columns: tuple[archive.Column, ...]) -> list[str]:
    return [column.name for column in columns]


def _table(columns: dict[str, np.ndarray], wanted: tuple[archive.Column, ...]) -> pa.Table:
    schema = arrow_schema(wanted)
    arrays = [pa.array(columns[field.name], field.type, from_pandas=False) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)

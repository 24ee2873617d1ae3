"""Many mutations of every sample of a parser: `python -m tests.benchmarks.mutated_captures [NAME]`.

Nothing is raised, and every value is absent or the original's. Samples are those recorded on real
machines, where they are (LOCKSTEP_SHARED, or ../shared), and constructed ones.
"""

import os
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import NamedTuple

import pytest

from tests.collector import counter_captures, kernel_log_values, nccl_captures
from tests.mutations import mutated, mutated_document, mutated_log
from tests.workloads.launch import training_logs

MUTATIONS = int(os.environ.get("MUTATIONS", "100000"))

Values = Mapping[object, object]
"""What a parser understood of a text, by key; a set where several lines are about the same."""


class Parser(NamedTuple):
    """What is tried.

    Attributes:
        samples: The texts.
        values: What the parser understands of one.
        mutate: What happens to it on its way.
        original: What is true of one, where the parser chooses among it by the whole text.
    """

    samples: Callable[[], Iterable[str]]
    values: Callable[[str], Values]
    mutate: Callable[[str, random.Random], str] = mutated
    original: Callable[[str], Values] | None = None


PARSERS: dict[str, Parser] = {
    "dcgm_exporter": Parser(counter_captures.dcgm_pages, counter_captures.of_dcgm_page),
    "ethtool": Parser(counter_captures.ethtool_texts, counter_captures.of_ethtool),
    "infiniband": Parser(
        counter_captures.infiniband_ports,
        counter_captures.of_infiniband,
        counter_captures.mutated_files,
    ),
    "kernel_log": Parser(kernel_log_values.samples, kernel_log_values.values, mutated_log),
    "nccl_ras_json": Parser(
        nccl_captures.ras_documents, nccl_captures.of_document, mutated_document
    ),
    "nccl_ras_text": Parser(nccl_captures.ras_reports, nccl_captures.of_report, mutated_document),
    "nccl_inspector": Parser(
        nccl_captures.inspector_files, nccl_captures.of_inspector, mutated_document
    ),
    "flight_recorder": Parser(nccl_captures.dumps, nccl_captures.of_dump, mutated_document),
    "node_labels": Parser(nccl_captures.label_tables, nccl_captures.of_labels),
    "training_logs": Parser(training_logs.samples, training_logs.values),
    "training_steps": Parser(
        training_logs.logs, training_logs.counted, original=training_logs.told
    ),
}


def wrong(parser: Parser, count: int, seed: int = 0) -> list[str]:
    """What mutations, dealt out among the samples of a parser, made it say wrongly.

    Raises:
        Exception: What the parser raised.
    """
    original_of = parser.original or parser.values
    originals = [(text, original_of(text)) for text in parser.samples()]
    found, chance = [], random.Random(seed)
    for index in range(count):
        text, original = originals[index % len(originals)]
        for key, value in parser.values(parser.mutate(text, chance)).items():
            if not _agrees(value, original.get(key)):
                found.append(f"{key}: {value!r}, not {original.get(key)!r} (mutation {index})")
    return found


def _agrees(value: object, original: object) -> bool:
    if isinstance(value, set) and isinstance(original, set):
        return value <= original
    return value == original


def main(names: list[str]) -> int:
    """Say of each parser how many mutations it stood."""
    if strangers := set(names) - set(PARSERS):
        sys.stderr.write(f"{', '.join(strangers)}: no parser; known: {', '.join(PARSERS)}\n")
        return 64
    failed = False
    for name in names or list(PARSERS):
        began = monotonic()
        try:
            found = wrong(PARSERS[name], MUTATIONS)
        except pytest.skip.Exception as absent:
            sys.stdout.write(f"{name}: not tried: {absent}\n")
            continue
        took = monotonic() - began
        sys.stdout.write(f"{name}: {MUTATIONS} mutations, {len(found)} wrong, {took:.0f} s\n")
        sys.stdout.writelines(f"  {line}\n" for line in found[:10])
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Keeps the dumps of a run on this machine, with what its sensors tell of the ranks."""

import json
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lockstep.collector.clock import Clock
from lockstep.collector.config import ConfigError, load
from lockstep.collector.contract import stacks
from lockstep.collector.contract.flight_recorder import EVIDENCE_FILE
from lockstep.collector.on_demand.dumps import Answers
from lockstep.collector.on_demand.rank_facts import SOURCES, Heard, facts, heard
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler

_DUMP = re.compile(r"dump_\d+", re.ASCII)


def sensed(environment: Mapping[str, str], folder: Path, clock: Clock) -> Heard:
    """One reading of the sensors that a collector of this machine would have; empty if none can.

    Args:
        environment: As the collector's.
        folder: Of the rings.
        clock: For them.
    """
    try:
        flags = {"lockstep_dir": str(folder), "sources": ",".join(SOURCES)}
        config = load(None, environment, flags)
        sampler = Sampler(feeds(config, clock), clock, config.ttl)
    except ConfigError:
        return Heard()
    sampler.start()
    try:
        sampler.wait_ready()
        return heard(sampler)
    finally:
        sampler.stop()


def save(answers: Answers, told: Heard, folder: Path, proc: Path, clock: Clock) -> dict[str, Any]:
    """Write the dumps into a folder that may be sent, with what else is known of the ranks.

    What an earlier call left there goes: it would be read as of now.

    Returns:
        The evidence, as it was written.

    Raises:
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name == stacks.FILE or _DUMP.fullmatch(old.name):
            old.unlink()
    written = {}
    for one in answers.ranks:
        number = one.rank.key[1]
        if one.dump is not None:
            copy = folder / f"dump_{number}"
            copy.write_bytes(zlib.decompress(one.packed))
            os.utime(copy, (one.dump.written_at,) * 2)
            written[str(number)] = one.dump.written_at
    rows = facts([one.rank for one in answers.ranks], told, proc, clock)
    tree = {"schema_version": 1, "written": written, "facts": rows}
    (folder / EVIDENCE_FILE).write_text(json.dumps(tree, indent=1))
    return tree

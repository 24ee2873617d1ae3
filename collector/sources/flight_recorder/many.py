"""Many dumps at once, as their trees: a child process reads as many pickles as its bounds allow."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.collector.reading import SourceError
from lockstep.collector.sources.flight_recorder.dump import MAX_BYTES, MAX_VALUES
from lockstep.collector.sources.flight_recorder.pickled import many_as_json

BATCH_BYTES = 8 << 20
"""Half of what a child is known to read within its bounds."""
CHILDREN = 2
"""At once; whoever sends dumps may be on a node that still trains."""


def trees(dumps: Sequence[bytes]) -> Iterator[Any | SourceError]:
    """The tree of each dump in their order, or why it has none; no pickle is executed."""
    with ThreadPoolExecutor(CHILDREN) as pool:
        for batch, answers in pool.map(_converted, _batches(dumps)):
            for data, answer in zip(batch, answers, strict=True):
                yield answer if isinstance(answer, SourceError) else _tree(answer or data)


def _batches(dumps: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for data in dumps:
        if batch and size + len(data) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(data)
        size += len(data)
    if batch:
        yield batch


def _converted(batch: list[bytes]) -> tuple[list[bytes], list[bytes | SourceError | None]]:
    """The JSON of each pickle; None = it is no pickle."""
    found: list[bytes | SourceError | None] = [None] * len(batch)
    pickles = [index for index, data in enumerate(batch) if data[:1] == b"\x80"]
    small = [index for index in pickles if len(batch[index]) <= MAX_BYTES]
    for index in pickles:
        found[index] = SourceError("too_large", f"a dump of over {MAX_BYTES >> 20} MiB")
    for index, answer in zip(small, many_as_json([batch[each] for each in small]), strict=True):
        found[index] = answer
    return batch, found


def _tree(text: bytes) -> Any | SourceError:
    if len(text) > MAX_BYTES:
        return SourceError("too_large", f"a dump of over {MAX_BYTES >> 20} MiB")
    # An empty list weighs three bytes in the file and sixty in memory.
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        return SourceError("too_large", f"a dump of over {MAX_VALUES} values")
    try:
        return bounded_json.loads(text, parse_constant=_refused)
    except ValueError as error:
        return SourceError("content", f"neither a pickle nor JSON: {error}"[:160])


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no JSON number")

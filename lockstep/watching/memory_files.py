"""What `watch` remembers, on disk: two files, each written whole or not at all in every cycle."""

from pathlib import Path

from analyzer.sequential_test.state import State
from analyzer.sequential_test.state_file import restore, save
from analyzer.watch.memory import Memory, MemoryFileError, from_json, to_json
from lockstep.diagnosis import write_whole

STREAMS_FILE = "streams.npz"
MEMORY_FILE = "memory.json"


def load(folder: Path | None) -> tuple[State, Memory, list[str]]:
    """What was remembered, and sentences on what was not; without a folder nothing is."""
    if folder is None:
        return State.new(), Memory(), []
    state, why = restore(folder / STREAMS_FILE)
    words = [why] if why else []
    path = folder / MEMORY_FILE
    try:
        return state, from_json(path.read_text("utf-8")), words
    except FileNotFoundError:
        words.append(f"{path} is not there yet; no finding is open")
    except (OSError, UnicodeError, MemoryFileError) as error:
        words.append(f"{path} cannot be used ({error}); findings that were open open again")
    return state, Memory(), words


def store(folder: Path, state: State, memory: Memory) -> None:
    """Write both; who is killed between them finds a stream reported and its finding not open yet.

    Raises:
        OSError: The disk is full or not writable; what was there stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save(state, folder / STREAMS_FILE)
    write_whole(folder / MEMORY_FILE, to_json(memory))

"""The layout of a foreign trace: from the command line, or from the meta file beside it."""

import reprlib
from pathlib import Path

from lockstep.analyzer.shapes.operations import Layout
from lockstep.analyzer.shapes.run import LoadError

PARTS = ("dp", "pp", "tp", "dsp", "vpp")
EXAMPLE = "dp=4,pp=4,tp=4,dsp=1,vpp=1"
MOST = 1_000_000
MOST_DIGITS = 20
"""Of a number that is looked at; Python reads none of 4,301."""
META_BYTES = 65536


def parse_layout(text: str) -> Layout:
    """As `dp=4,pp=4,tp=4,dsp=1,vpp=1`; what is left out is 1.

    Raises:
        LoadError: A part is unknown, twice there, or no whole number from 1.
    """
    sizes: dict[str, int] = {}
    for item in text.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in PARTS:
            raise LoadError(f"--layout has no part {reprlib.repr(name)}; it reads as {EXAMPLE}")
        if name in sizes:
            raise LoadError(f"--layout gives {name} twice; it reads as {EXAMPLE}")
        sizes[name] = _size(f"--layout: {name}", value)
    return Layout(**sizes)


def read_meta(path: Path) -> Layout:
    """The lines `dp_size: 4` of a public trace's meta file (flat YAML).

    Raises:
        LoadError: The file is not readable, lacks dp_size or pp_size, or contradicts itself.
    """
    try:
        text = path.read_bytes()[:META_BYTES].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"{path} is not a readable meta file ({error})") from None
    lines = (line.partition("#")[0].partition(":") for line in text.splitlines())
    given = {name.strip(): value.strip() for name, _, value in lines}
    sizes = {
        part: _size(f"{path}: {part}_size", given[f"{part}_size"])
        for part in PARTS
        if f"{part}_size" in given
    }
    absent = [f"{part}_size" for part in ("dp", "pp") if part not in sizes]
    if absent:
        raise LoadError(f"{path} lacks {' and '.join(absent)}; a line reads as dp_size: 4")
    layout = Layout(**sizes)
    if "world_size" in given:
        world = _size(f"{path}: world_size", given["world_size"])
        if world != layout.world:
            raise LoadError(
                f"{path}: world_size is {world}, but dp · pp · tp · dsp is {layout.world}"
            )
    return layout


def _size(what: str, value: str) -> int:
    digits = value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS
    if not digits or not 1 <= int(value) <= MOST:
        told = reprlib.repr(value)
        raise LoadError(f"{what} is {told}; it must be a whole number from 1 to {MOST}")
    return int(value)

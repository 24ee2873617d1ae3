"""One file with the outputs of a machine: a tar archive of plain texts, and what is in it.

`MANIFEST.json` stands first: `schema_version`, `lockstep`, `parts` (name, files, bytes, lines,
absent, left_out) and `replaced` (different names by kind).
"""

import gzip
import io
import json
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lockstep.collector.contract import bounded_json
from lockstep.doctor.parts import Part, Piece
from lockstep.doctor.pseudonyms import Pseudonyms

MANIFEST = "MANIFEST.json"
SCHEMA_VERSION = 1
MOST_BYTES = 64 << 20
"""Of all texts together, when one is read: they come from anybody."""
MOST_FILES = 20_000
_SAFE = re.compile(r"[\w.,@:+=-]+(?:/[\w.,@:+=-]+)*", re.ASCII)


class BundleError(ValueError):
    """The file is no bundle; the message says why."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle: its manifest, and its texts by path."""

    manifest: Mapping[str, Any]
    texts: Mapping[str, str]

    @property
    def absent(self) -> dict[str, str]:
        """Why parts are not there, by name, as the bundle says."""
        parts = self.manifest.get("parts")
        told = [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
        return {str(one.get("name")): str(one["absent"])[:200] for one in told if one.get("absent")}

    def of(self, part: str) -> dict[str, str]:
        """The texts of a part, by path."""
        return {path: text for path, text in self.texts.items() if path.split("/")[0] == part}


def anonymous(parts: Sequence[Part], names: Pseudonyms) -> list[Part]:
    """The parts with all names replaced: what one of them tells is a name, is one in all."""
    for part in parts:
        for piece in part.pieces:
            names.learn(piece.text)
    return [
        Part(
            part.name,
            tuple(_anonymous(part.pieces, names)),
            names(part.absent),
            tuple(names(each) for each in part.left_out[:100]),
        )
        for part in parts
    ]


def _anonymous(pieces: Sequence[Piece], names: Pseudonyms) -> Iterator[Piece]:
    """The pieces, each with a path of its own."""
    taken: set[str] = set()
    for piece in pieces:
        path = _path(names(piece.path))
        while path in taken:
            path += "_"
        taken.add(path)
        yield Piece(path, names(piece.text))


def manifest(parts: Sequence[Part], replaced: Mapping[str, int], version: str) -> dict[str, Any]:
    """What the bundle says of itself."""
    return {
        "schema_version": SCHEMA_VERSION,
        "lockstep": version,
        "parts": [
            {
                "name": part.name,
                "files": len(part.pieces),
                "bytes": sum(len(piece.text.encode()) for piece in part.pieces),
                "lines": sum(piece.text.count("\n") for piece in part.pieces),
                "absent": part.absent,
                "left_out": list(part.left_out),
            }
            for part in parts
        ],
        "replaced": dict(replaced),
    }


def write(path: Path, parts: Sequence[Part], about: Mapping[str, Any]) -> None:
    """Write it, whole or not at all; nobody but its owner may read it.

    Raises:
        OSError: It cannot be written; FileExistsError, it is there.
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        _add(archive, MANIFEST, json.dumps(about, indent=2) + "\n")
        for part in parts:
            for piece in part.pieces:
                _add(archive, piece.path, piece.text)
    with path.open("xb") as file:
        path.chmod(0o600)
        file.write(data.getvalue())


def read(path: Path) -> Bundle:
    """A bundle, or the folder that one was unpacked to.

    Raises:
        BundleError: It is neither.
        OSError: It cannot be read.
    """
    texts: dict[str, str] = {}
    left = MOST_BYTES
    for name, data in _folder(path) if path.is_dir() else _archive(path):
        left -= len(data)
        if left < 0 or len(texts) >= MOST_FILES:
            raise BundleError(f"{path} holds more than {MOST_BYTES >> 20} MB or {MOST_FILES} files")
        texts[name] = data.decode("utf-8", "replace")
    try:
        about = bounded_json.loads(texts.pop(MANIFEST))
    except (KeyError, ValueError, RecursionError):
        raise BundleError(
            f"{path} holds no readable {MANIFEST}: give what `lockstep capture --share` wrote"
        ) from None
    if not isinstance(about, dict) or about.get("schema_version") != SCHEMA_VERSION:
        raise BundleError(f"{path}: its {MANIFEST} is not of schema_version {SCHEMA_VERSION}")
    parts = about.get("parts")
    told = (
        [one.get("files") for one in parts if isinstance(one, dict)]
        if isinstance(parts, list)
        else []
    )
    if sum(count for count in told if isinstance(count, int)) > len(texts):
        raise BundleError(f"{path} is cut: it holds {len(texts)} files, and says that it has more")
    return Bundle(about, texts)


def unpack(texts: Mapping[str, str], folder: Path) -> None:
    """Lay texts out as files, for parsers that read a tree.

    Raises:
        OSError: One cannot be written.
    """
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _archive(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb") as packed:
        try:
            # Unpacked here, and so much at most: also a header may claim any size.
            whole = gzip.GzipFile(fileobj=packed).read(2 * MOST_BYTES)
            with tarfile.open(fileobj=io.BytesIO(whole), mode="r:") as archive:
                for count, member in enumerate(archive):
                    if count > MOST_FILES:
                        raise BundleError(f"{path} holds more than {MOST_FILES} files")
                    file = archive.extractfile(member) if member.isreg() else None
                    if file is not None and _is_safe(member.name):
                        yield member.name, file.read(MOST_BYTES + 1)
        except BundleError:
            raise
        except (tarfile.TarError, EOFError, ValueError, OSError, zlib.error) as error:
            raise BundleError(f"{path} is no bundle, or is cut: {error}") from None


def _folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path).as_posix()
        if file.is_file() and not file.is_symlink() and _is_safe(name):
            with file.open("rb") as opened:
                yield name, opened.read(MOST_BYTES + 1)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o600
    archive.addfile(entry, io.BytesIO(data))


def _path(name: str) -> str:
    """A path in the bundle; other characters than those of device names become `_`."""
    return "/".join(re.sub(r"[^\w.,@:+=-]", "_", part, flags=re.ASCII) for part in name.split("/"))


def _is_safe(name: str) -> bool:
    return _SAFE.fullmatch(name) is not None and not {"..", "."} & {*PurePosixPath(name).parts}

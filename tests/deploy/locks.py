"""Which versions and which files pip may install: `python -m tests.deploy.locks` writes it anew.

`locks/IMAGE.txt` pins all that an image installs, by version and by the hash of every file of it;
`constraints.txt` pins all that `make setup` installs, by version. Both come from pyproject.toml,
for every platform, with the versions that are committed wherever the requirements allow it; with
`--upgrade` they are the newest. It needs uv (`pip install uv`) and the package index.

torch stands in no lock: its usual build brings gigabytes for NVIDIA's GPUs, a site takes the build
of its own GPUs, and each is another file of the same version. constraints.txt pins that version.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
CONSTRAINTS = ROOT / "constraints.txt"
PYTHON = "3.11"
"""The oldest that is supported, and the images'."""
IMAGES = {
    "collector": ("collector", "stacks"),
    "dashboard": ("dashboard", "collector"),
    "nodes": ("cli", "kubernetes"),
    "watch": ("analyzer", "api", "collector", "top"),
    "workloads": ("workloads", "collector", "kubernetes", "stacks"),
}
"""Image -> its extras."""
MORE = {"dashboard": ("streamlit[auth]",)}
"""What an image has beside its extras."""
NO_IMAGE = ("results",)
"""Extras of no image: who pushes results elsewhere does so from a workstation or from CI."""
BUILD = "build"
"""The lock of what builds our own wheel."""
UNLOCKED = re.compile(r"torch|triton|nvidia-(?!ml-py$).*|cuda-.*")
"""torch, and what its usual build brings."""
_HEAD = "# Written by `python -m tests.deploy.locks`: "
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def requirements(image: str) -> list[str]:
    """What is asked for in a lock, as in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    if image == BUILD:
        return list(project["build-system"]["requires"])
    told, extras = project["project"], project["project"]["optional-dependencies"]
    asked = [line for extra in IMAGES[image] for line in extras[extra]]
    return [*told["dependencies"], *asked, *MORE.get(image, ())]


def grouped() -> list[str]:
    """What installing, linting and testing ask for, as in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [line for group in project["dependency-groups"].values() for line in group]


def entries(text: str) -> dict[str, list[str]]:
    """Name -> its entries in a lock or in constraints; more than one where platforms differ."""
    found: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        if name := _NAME.match(entry):
            found.setdefault(canonicalize_name(name[0]), []).append(entry)
    return found


def locked(image: str) -> str:
    """The lock of an image, with the versions of constraints.txt."""
    words = ["--generate-hashes", "--constraint", str(CONSTRAINTS)]
    told = entries(_compiled("\n".join(requirements(image)), words))
    kept = [entry for name in sorted(told) for entry in told[name] if not UNLOCKED.fullmatch(name)]
    return "\n".join([f"{_HEAD}what the image {image} installs.", *kept]) + "\n"


def constrained(*, upgrade: bool) -> str:
    """constraints.txt: all that any extra and the tests need."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    asked = {line for image in (*IMAGES, BUILD) for line in requirements(image)} | set(grouped())
    asked |= {line for extra in NO_IMAGE for line in extras[extra]}
    words = ["--output-file", str(CONSTRAINTS)]  # whose versions it prefers, and keeps
    _compiled("\n".join(sorted(asked)), [*words, *(["--upgrade"] if upgrade else [])])
    told = entries(CONSTRAINTS.read_text())
    lines = [line for name in sorted(told) for line in told[name] if name == "torch" or not
             UNLOCKED.fullmatch(name)]  # fmt: skip
    head = f"{_HEAD}the versions that the tests ran with.\n# torch was its CPU build."
    return "\n".join([head, *lines]) + "\n"


def _compiled(asked: str, words: Sequence[str]) -> str:
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-", "--universal", "--quiet",
        "--python-version", PYTHON, "--no-header", "--no-annotate", *words,
    ]  # fmt: skip
    return subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout


def written(*, upgrade: bool) -> Iterator[tuple[Path, str]]:
    """Each file and what is to be in it; the constraints first, for the locks follow them."""
    yield CONSTRAINTS, constrained(upgrade=upgrade)
    for image in (*IMAGES, BUILD):
        yield LOCKS / f"{image}.txt", locked(image)


def main(words: Sequence[str]) -> int:
    """Writes them."""
    try:
        for path, text in written(upgrade="--upgrade" in words):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"uv found no versions: {error.stderr.strip()}\n")
        return 69
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Whether ranks can train on this machine's GPUs, without asking the driver or loading torch.

A process that has asked the driver cannot fork ranks that use it.
"""

import os
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_DEVICE = re.compile(r"nvidia\d+")


def visible(dev: Path = Path("/dev"), environ: Mapping[str, str] = os.environ) -> int:
    """GPUs that this machine shows to a process, by device files and CUDA_VISIBLE_DEVICES."""
    files = sum(1 for path in dev.iterdir() if _DEVICE.fullmatch(path.name))
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return files
    return min(files, sum(1 for one in listed.split(",") if one.strip() not in ("", "-1")))


def why_not(ranks: int, gpus: int, build: str | None) -> str | None:
    """What keeps so many ranks from training on GPUs; None if nothing does.

    Args:
        gpus: As `visible` counts them.
        build: As `torch_build` names it.
    """
    if gpus == 0:
        return "this machine shows no NVIDIA GPU"
    if build is None or build.endswith("+cpu"):
        return f"torch {build} is built without CUDA" if build else "torch is not installed"
    if ranks > gpus:
        return f"{ranks} ranks need a GPU each, and this machine shows {gpus}"
    return None


def torch_build() -> str | None:
    """Version of torch with its build, as `2.13.0+cpu`; None where it is not installed."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None

"""Where libnvidia-ml.so.1 lies, and which driver the kernel runs."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from lockstep.collector.files.opening import read_lines
from lockstep.collector.readings.source import SourceError

NAME = "libnvidia-ml.so.1"
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu",
    "/usr/lib64", "/usr/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
    "/home/kubernetes/bin/nvidia/lib64", "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib64", "/run/opengl-driver/lib", "/usr/lib/wsl/lib",
)  # fmt: skip
"""Where distributions, container runtimes and cluster operators put it."""
_KERNEL_MODULE = re.compile(r"NVRM version: .*?\s(\d+\.\d+(?:\.\d+)?)\s")


def search(environment: Mapping[str, str], folders: Iterable[str] = FOLDERS) -> list[Path]:
    """Every different copy, the one that the loader takes first (LD_LIBRARY_PATH) at the front."""
    libraries: dict[Path, Path] = {}
    for folder in (*environment.get("LD_LIBRARY_PATH", "").split(":"), *folders):
        path = Path(folder) / NAME
        if folder and path.is_file():
            libraries.setdefault(Path(os.path.realpath(path)), path)
    return list(libraries.values())


def searched(environment: Mapping[str, str]) -> str:
    """The folders, in words."""
    own = environment.get("LD_LIBRARY_PATH")
    return f"LD_LIBRARY_PATH ({own or 'not set'}), {', '.join(FOLDERS[:4])} and others"


def file_version(path: Path) -> str:
    """The version in the name of the file that the library's link points to, or empty."""
    return Path(os.path.realpath(path)).name.partition("libnvidia-ml.so.")[2].removeprefix("1")


def kernel_module(proc: Path) -> str | None:
    """Version of the loaded kernel module, or None if none tells."""
    try:
        lines = read_lines(proc / "driver/nvidia/version", 4096)
    except SourceError:
        return None
    match = _KERNEL_MODULE.search(lines[0] + " ") if lines else None
    return match[1] if match else None


def signature(proc: Path) -> tuple[str, ...]:
    """Changes when the driver comes, goes, or finds other GPUs."""
    try:
        gpus = os.listdir(proc / "driver/nvidia/gpus")
    except OSError:
        gpus = []
    return (kernel_module(proc) or "", *sorted(gpus))


def on_the_bus(sys: Path) -> int | None:
    """NVIDIA GPUs on the PCI bus (vendor 10de, class 0300 or 0302), or None without sysfs.

    A virtual function (SR-IOV) is a part of one that is counted.
    """
    try:
        devices = os.listdir(sys / "bus/pci/devices")
    except OSError:
        return None
    return sum(_is_gpu(sys / "bus/pci/devices" / name) for name in devices)


def _is_gpu(device: Path) -> bool:
    try:
        vendor, kind = (
            (device / name).read_text("ascii", "replace") for name in ("vendor", "class")
        )
    except OSError:
        return False
    whole = not (device / "physfn").exists()
    return whole and vendor.startswith("0x10de") and kind.startswith(("0x0300", "0x0302"))


def explained(word: str, text: str, path: Path, module: str | None) -> SourceError:
    """Why NVML cannot be used, and what would help.

    Args:
        word: NVML's word for it.
        text: What the process said; told where nothing better is known.
        path: The library.
        module: Version of the kernel module, or None.
    """
    kernel = f"kernel module {module}" if module else "no loaded kernel module"
    match word:
        case "lib_rm_version_mismatch":
            version = file_version(path)
            text = f"{path} {version} does not fit the {kernel}: reload the driver or reboot"
        case "driver_not_loaded":
            text = f"{path} found, but {kernel}: load the driver (modprobe nvidia)"
        case "no_permission":
            text = (
                f"user {os.geteuid()} may not open /dev/nvidiactl; give it access to /dev/nvidia*"
            )
        case "no_binding":
            text = "nvidia-ml-py is missing: pip install 'lockstep-monitor[collector]'"
        case _:
            pass
    return SourceError(word, text)

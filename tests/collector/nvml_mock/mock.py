"""The mock of libnvidia-ml: built once, driven by a state file that this maps."""

import ctypes
import hashlib
import mmap
import os
import shutil
import subprocess
from ctypes import c_char, c_double, c_int32, c_uint32, c_uint64
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("nvml_mock.c")
NAME = "libnvidia-ml.so.1"
GPUS, LINKS, FIELDS, MIGS, GPM, FUNCTIONS, EVENTS = 16, 18, 308, 7, 32, 64, 64
MAGIC = 0x4C4D564E
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, MISMATCH = 3, 4, 15, 18
_UINT, _ULL, _INT = 1, 3, 5
NONE, XID = 0xFFFFFFFF, 8


class MigState(ctypes.Structure):
    _fields_ = (
        ("uuid", c_char * 96), ("name", c_char * 96), ("gi", c_uint32), ("ci", c_uint32),
        ("total", c_uint64), ("reserved", c_uint64), ("free", c_uint64), ("used", c_uint64),
        ("gpm", c_double * GPM),
    )  # fmt: skip


class GpuState(ctypes.Structure):
    _fields_ = (
        ("uuid", c_char * 96), ("name", c_char * 96), ("serial", c_char * 32),
        ("vbios", c_char * 32), ("firmware", c_char * 64), ("bus_id", c_char * 32),
        ("minor", c_uint32), ("numa", c_int32), ("handle_rc", c_int32), ("every_rc", c_int32),
        ("hang", c_uint32), ("delay_us", c_uint32), ("rc", c_int32 * FUNCTIONS),
        ("util_gpu", c_uint32), ("util_memory", c_uint32),
        ("total", c_uint64), ("reserved", c_uint64), ("free", c_uint64), ("used", c_uint64),
        ("clock", c_uint32 * 4), ("max_clock", c_uint32 * 4), ("reasons", c_uint64),
        ("temperature", c_int32), ("margin", c_int32), ("threshold", c_uint32 * 4),
        ("power_usage", c_uint32), ("pstate", c_uint32), ("ecc", c_uint64 * 8 * 2 * 2),
        ("ecc_location_present", c_uint32), ("banks", c_uint32 * 5), ("sram_exceeded", c_uint32),
        ("pcie_width", c_uint32), ("pcie_width_max", c_uint32),
        ("pcie_gen", c_uint32), ("pcie_gen_max", c_uint32),
        ("links", c_uint32), ("link_up", c_uint32 * LINKS),
        ("fabric_state", c_uint32), ("fabric_status", c_uint32), ("fabric_health", c_uint32),
        ("processes", c_uint32), ("gpm_supported", c_uint32),
        ("gpm_samples", c_uint32), ("gpm_window", c_uint32), ("gpm", c_double * GPM),
        ("registrations", c_uint32), ("event_kinds", c_uint64),
        ("mig_mode", c_uint32), ("mig_count", c_uint32), ("migs", MigState * MIGS),
        ("field_rc", c_int32 * FIELDS), ("field_type", c_uint32 * FIELDS),
        ("field", c_uint64 * FIELDS), ("link_field", c_uint64 * FIELDS * LINKS),
    )  # fmt: skip


class Event(ctypes.Structure):
    _fields_ = (
        ("gpu", c_uint32), ("gi", c_uint32), ("ci", c_uint32), ("unused", c_uint32),
        ("kind", c_uint64), ("data", c_uint64),
    )  # fmt: skip


class State(ctypes.Structure):
    _fields_ = (
        ("magic", c_uint32), ("count", c_uint32), ("init_rc", c_int32), ("lock_hang", c_uint32),
        ("driver", c_char * 80), ("version", c_char * 80), ("cuda", c_int32), ("calls", c_uint32),
        ("noise", c_uint32), ("event_hang", c_uint32), ("event_rc", c_int32), ("count_rc", c_int32),
        ("settled", c_uint32), ("unused", c_uint32),
        ("events_put", c_uint32), ("events_taken", c_uint32), ("events", Event * EVENTS),
        ("gpus", GpuState * GPUS),
    )  # fmt: skip


def build(cache: Path) -> Path:
    """The folder with the library, compiled unless this source has been before.

    Raises:
        FileNotFoundError: There is no gcc.
    """
    if shutil.which("gcc") is None:
        raise FileNotFoundError("gcc is missing: apt install gcc")
    folder = cache / hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = folder / NAME
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{os.getpid()}.so"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror",
                   f"-Wl,-soname,{NAME}", "-o", str(temporary), str(SOURCE)]  # fmt: skip
        subprocess.run(command, check=True, timeout=240)
        temporary.replace(library)
    return folder


class NvmlMock:
    """A machine's GPUs as the mock tells them; changes take effect at once."""

    def __init__(self, library_folder: Path, state_file: Path) -> None:
        self.library_folder = library_folder
        self.state_file = state_file
        state_file.write_bytes(bytes(ctypes.sizeof(State)))
        with state_file.open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), 0)
        self.state = State.from_buffer(self._map)
        self.state.magic = MAGIC
        self.state.driver, self.state.version, self.state.cuda = (
            b"550.54.15",
            b"12.550.54.15",
            12040,
        )
        self._order = [
            name.decode() if name else ""
            for name in map(self.library().mock_function, range(FUNCTIONS))
        ]

    @property
    def path(self) -> Path:
        return self.library_folder / NAME

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_LIBRARY_PATH": str(self.library_folder),
            "NVML_MOCK_STATE": str(self.state_file),
        }

    def library(self) -> ctypes.CDLL:
        library = ctypes.CDLL(str(self.path))
        library.mock_sizeof.restype = ctypes.c_size_t
        library.mock_function.restype = ctypes.c_char_p
        return library

    def gpu(self, index: int) -> GpuState:
        gpu: GpuState = self.state.gpus[index]
        return gpu

    def fails(self, index: int, function: str, code: int) -> None:
        self.gpu(index).rc[self._order.index(function)] = code

    def field(self, index: int, number: int, value: int, kind: int = _ULL) -> None:
        gpu = self.gpu(index)
        gpu.field_rc[number], gpu.field_type[number], gpu.field[number] = (
            0,
            kind,
            value & (1 << 64) - 1,
        )

    def plug(self, count: int) -> None:
        """So many healthy H100s; those that are there already stay as they are."""
        for index in range(self.state.count, count):
            self._h100(index)
        self.state.count = count

    def heal(self) -> None:
        """All GPUs as they were when they were plugged in."""
        for index in range(self.state.count):
            self._h100(index)

    def partition(self, index: int, parts: int) -> None:
        """So many MIG devices 1g.10gb on this GPU; none = MIG off."""
        gpu = self.gpu(index)
        gpu.mig_mode, gpu.gpm_supported = int(parts > 0), 1
        for number in range(parts):
            part = gpu.migs[number]
            part.uuid = f"MIG-{index}-{number}".encode()
            part.name = b"NVIDIA H100 80GB HBM3 MIG 1g.10gb"
            part.gi, part.ci = 7 + number, 0
            part.total, part.reserved, part.used = 10 << 30, 1 << 26, number << 30
            part.free = part.total - part.reserved - part.used
            for metric in range(1, 14):
                part.gpm[metric] = 10.0 * number
        gpu.mig_count = parts

    def happens(self, index: int, xid: int, instances: tuple[int, int] = (NONE, NONE)) -> None:
        """An XID event on this GPU."""
        event = self.state.events[self.state.events_put % EVENTS]
        event.gpu, event.kind, event.data = index, XID, xid
        event.gi, event.ci = instances
        self.state.events_put += 1

    def close(self) -> None:
        """Let nothing hang on."""
        self.state.lock_hang = self.state.event_hang = 0
        for gpu in self.state.gpus:
            gpu.hang = 0

    def _h100(self, index: int) -> None:
        gpu = self.gpu(index)
        ctypes.memset(ctypes.byref(gpu), 0, ctypes.sizeof(gpu))
        words: dict[str, Any] = {
            "uuid": f"GPU-{index}", "name": "NVIDIA H100 80GB HBM3", "serial": f"165432100{index}",
            "vbios": "96.00.74.00.01", "firmware": "550.54.15",
            "bus_id": f"00000000:{0x18 + index:02X}:00.0",
        }  # fmt: skip
        for name, text in words.items():
            setattr(gpu, name, text.encode())
        gpu.minor, gpu.numa = index, index // 4
        gpu.util_gpu, gpu.util_memory = 97, 41
        gpu.total, gpu.reserved, gpu.used = 80 << 30, 1 << 29, 64 << 30
        gpu.free = gpu.total - gpu.reserved - gpu.used
        gpu.clock[:], gpu.max_clock[:] = (1980, 1980, 2619, 1545), (1980, 1980, 2619, 1545)
        gpu.reasons, gpu.temperature, gpu.margin = 0x4, 61, 26
        gpu.threshold[:] = (95, 90, 0, 87)
        gpu.power_usage, gpu.pstate = 655_000, 0
        gpu.ecc_location_present = 1 << 2 | 1 << 7
        gpu.banks[:] = (640, 0, 0, 0, 0)
        gpu.pcie_width, gpu.pcie_width_max, gpu.pcie_gen, gpu.pcie_gen_max = 16, 16, 5, 5
        gpu.links = LINKS
        gpu.link_up[:] = (1,) * LINKS
        gpu.fabric_state = 3
        gpu.processes, gpu.gpm_supported, gpu.event_kinds = 1, 1, XID
        for metric, percent in {1: 97, 2: 88, 3: 41, 5: 52.5, 10: 37, 11: 0, 12: 9, 13: 3}.items():
            gpu.gpm[metric] = percent
        gpu.field_rc[:] = (NOT_SUPPORTED,) * FIELDS
        for number in (*range(3, 7), *range(74, 82), 269, 270, 271, 38, 45, 52, 59, 160):
            self.field(index, number, 0)
        known = {
            1: 1, 2: 1, 74: 12_500_000_000, 82: 66, 83: 123_456_789, 91: LINKS, 94: 0, 95: 0,
            138: 1 << 30, 139: 1 << 29, 142: 0, 143: 0, 144: 0, 145: 0, 161: 0, 162: 0, 163: 0,
            169: 4, 185: 650_000, 186: 655_250, 187: 200_000, 188: 700_000, 189: 700_000,
            190: 700_000, 197: 1 << 40, 198: 1 << 39, 230: 0,
        }  # fmt: skip
        for number, value in known.items():
            self.field(index, number, value)
        for number in range(173, 184):
            self.field(index, number, 0, _UINT)
        for number, value in {193: -8, 194: -2, 195: 0, 196: 0}.items():
            self.field(index, number, value & 0xFFFFFFFF, _INT)

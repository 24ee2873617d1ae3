"""The ioctl SIOCETHTOOL: one request of linux/ethtool.h to the driver of a network device."""

import ctypes
import errno
import fcntl
import mmap
import socket
import struct

from collector.reading import SourceError

SIOCETHTOOL = 0x8946
ROOM = 16 << 20
"""Bytes for an answer. The kernel writes as many statistics as the driver has then, not as many as
were asked for (net/ethtool/ioctl.c), so that the room is far beyond any driver's; of the mapping,
only pages that were written to take memory."""
_IFREQ = struct.Struct("16sP16x")
"""struct ifreq: name of the device, pointer to the request; 40 bytes (linux/if.h)."""
_NAME_BYTES = 15
_REASONS = {
    errno.ENODEV: "missing",
    errno.EPERM: "permission",
    errno.EACCES: "permission",
    errno.EOPNOTSUPP: "unsupported",
    errno.EBUSY: "busy",
}


class Kernel:
    """Asks the drivers of this network namespace.

    Raises:
        SourceError: There is no descriptor or no memory left for it.
    """

    def __init__(self) -> None:
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._room = mmap.mmap(-1, ROOM)
        except OSError as error:
            raise SourceError("io", f"no way to ask drivers: {error.strerror}") from error
        self._first = ctypes.c_char.from_buffer(self._room)

    def __call__(self, device: str, request: bytes, size: int) -> bytes:
        """The first `size` bytes of what the driver made of the request.

        Raises:
            SourceError: The device is gone, or the driver refuses.
        """
        name = device.encode()
        if not 0 < len(name) <= _NAME_BYTES or size > ROOM:
            raise SourceError("content", f"{device[:80]!r} is no device's name")
        self._room[: len(request)] = request
        try:
            fcntl.ioctl(self._socket, SIOCETHTOOL, _IFREQ.pack(name, ctypes.addressof(self._first)))
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, "io")
            raise SourceError(reason, f"ethtool on {device}: {error.strerror}") from error
        return self._room[:size]

    def close(self) -> None:
        """Close the socket and give the memory back."""
        self._socket.close()
        del self._first
        self._room.close()

"""The kernel's calls for network namespaces, which Python 3.11 lacks (setns(2), mount(2)).

pyroute2 has some of them, but for a whole process: it forks one a namespace, comes back to the main
thread's, and makes what it should only enter. Here threads go in and out of them.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path("/run/netns")
"""Where iproute2 keeps namespaces by name (ip-netns(8))."""

# Of <linux/sched.h> and <sys/mount.h>.
_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_MOVE, _MS_REC, _MS_SLAVE, _MS_SHARED = 4096, 8192, 16384, 1 << 19, 1 << 20
_MNT_DETACH = 2


def create(namespace: str) -> None:
    """Make a namespace with a name, as `ip netns add` does.

    Raises:
        OSError: It is there already, or this process may not.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:  # so that who lives in another mount namespace sees what comes and goes, as ip-netns(8)
        _mount(None, str(FOLDER), None, _MS_SHARED | _MS_REC)
    except OSError:  # it is no mount yet
        _mount(str(FOLDER), str(FOLDER), None, _MS_BIND | _MS_REC)
        _mount(None, str(FOLDER), None, _MS_SHARED | _MS_REC)
    path = FOLDER / namespace
    path.touch(mode=0, exist_ok=False)
    with fresh():
        _mount("/proc/thread-self/ns/net", str(path), None, _MS_BIND)


def enter(namespace: str) -> None:
    """Move the calling thread into a namespace; threads and processes it starts follow.

    Raises:
        OSError: There is no such namespace, or this process may not enter it.
    """
    _set(FOLDER / namespace)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """For a block, be in a namespace: sockets and devices opened there stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set(FOLDER / namespace)
        try:
            yield
        finally:
            _call("setns", home, _CLONE_NEWNET)
    finally:
        os.close(home)


@contextmanager
def fresh() -> Iterator[None]:
    """For a block, be in a namespace without a name, which ends with it.

    Raises:
        OSError: This process may not make one.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("unshare", _CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", home, _CLONE_NEWNET)
    finally:
        os.close(home)


def show_own_devices(scratch: Path) -> None:
    """Let /sys tell of this namespace's devices, in a mount namespace of this process' own.

    A sysfs tells of the namespace it was mounted in, so a new one is mounted. The cgroups below
    /sys stay in view, which `ip netns exec` does not see to.

    Args:
        scratch: An empty or otherwise unneeded folder; it is covered for a moment.

    Raises:
        OSError: This process may not mount.
    """
    _call("unshare", _CLONE_NEWNS)
    # Slave, not private: a namespace that is removed outside must not live on through our copy.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    _mount("sysfs", str(scratch), "sysfs", 0)
    groups = Path("/sys/fs/cgroup")
    if groups.is_dir():
        _mount(str(groups), f"{scratch}/fs/cgroup", None, _MS_BIND | _MS_REC)
    _mount(str(scratch), "/sys", None, _MS_MOVE)


def forget(namespace: str) -> None:
    """Take a namespace's name away; it ends with the last process and device that uses it.

    Raises:
        OSError: This process may not.
    """
    path = FOLDER / namespace
    if not path.exists():
        return
    try:
        _call("umount2", os.fsencode(path), _MNT_DETACH)
    except OSError as error:
        if error.errno != 22:  # EINVAL: a name that nothing is mounted on
            raise
    path.unlink(missing_ok=True)


def _set(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", descriptor, _CLONE_NEWNET)
    finally:
        os.close(descriptor)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = (os.fsencode(word) if word is not None else None for word in (source, target, kind))
    _call("mount", *words, ctypes.c_ulong(flags), None)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")

"""The collector's program: reads this node, serves its page, until it is told to stop."""

import argparse
import logging
import os
import platform
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from collector.clock import SystemClock
from collector.collectors import feeds
from collector.collectors.monitor import collect_build
from collector.config import ConfigError, load
from collector.contract.words import ExitCode
from collector.exporter import Exporter, ListenError
from collector.sampler import Sampler

LOG = logging.getLogger("collector")

FLAGS = ("listen", "lockstep_dir", "proc", "sys", "node")
"""Flags that are fields of Config."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the collector; returns the exit code (words.ExitCode)."""
    logging.basicConfig(format="collector: %(message)s", level=logging.INFO)
    try:
        options = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong; its 2 is our 64
        return ExitCode.USAGE if stop.code else ExitCode.OK
    try:
        if options.die_with_parent:
            _die_with_parent()
        flags = {
            name: getattr(options, name)
            for name in ("listen", "lockstep_dir", "proc", "sys", "node")
        }
        config = load(options.config, os.environ, flags)
        clock = SystemClock()
        build = collect_build(_version(), platform.python_version())
        sampler = Sampler(feeds(config, clock), clock, config.ttl, build)
        exporter = Exporter(config, sampler, clock)
        if options.once:
            return _once(sampler, exporter)
        return _serve(sampler, exporter, options.announce)
    except ConfigError as error:
        LOG.error("%s", error)
        return ExitCode.USAGE
    except ListenError as error:
        LOG.error("%s", error)
        return ExitCode.UNREACHABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lockstep collect",
        description="Serve what this node knows as a Prometheus page.",
        epilog="Settings: flags over LOCKSTEP_<SECTION>_<KEY> over the configuration file.",
    )
    add = parser.add_argument
    add("--listen", metavar="HOST:PORT", help="address of the page (127.0.0.1:9410); port 0 = any")
    add("--config", metavar="FILE", type=Path, help="TOML file with [collector] and [paths]")
    add("--lockstep-dir", metavar="DIR", help="where the ranks write (/dev/shm/lockstep)")
    add("--proc", metavar="DIR", help="where procfs is mounted (/proc)")
    add("--sys", metavar="DIR", help="where sysfs is mounted (/sys)")
    add("--node", metavar="NAME", help="name of the emulated node")
    add("--announce", metavar="FILE", type=Path, help="write HOST:PORT here once the page is up")
    add("--once", action="store_true", help="print one page and exit")
    add("--die-with-parent", action="store_true", help="end when the starting process ends")
    return parser


def _once(sampler: Sampler, exporter: Exporter) -> int:
    sampler.start()
    sampler.wait_ready()
    sys.stdout.write(exporter.page())
    return ExitCode.OK


def _serve(sampler: Sampler, exporter: Exporter, announce: Path | None) -> int:
    server = exporter.serve()
    # Blocked in every thread and waited for below: a handler could interrupt a held lock.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    sampler.start()
    server.start()
    sampler.wait_ready()
    if announce is not None and not _announce(announce, str(server.address)):
        return ExitCode.USAGE
    LOG.info("serving http://%s/metrics", server.address)
    signal.sigwait(ends)
    server.stop()
    sampler.stop()
    return ExitCode.OK


def _announce(path: Path, address: str) -> bool:
    """Write the address in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(f"{address}\n")
        temporary.replace(path)
    except OSError as error:
        LOG.error("cannot announce in %s: %s", path, error.strerror)
        return False
    return True


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("lockstep-monitor")
    except metadata.PackageNotFoundError:
        return "unknown"


def _die_with_parent() -> None:
    """Have the kernel send SIGTERM when the thread that started this process ends (prctl(2))."""
    import ctypes

    pr_set_pdeathsig = 1
    parent = os.getppid()
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM) != 0:
        raise ConfigError("--die-with-parent is not possible on this kernel")
    if os.getppid() != parent:  # it ended before the kernel knew
        raise SystemExit(ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main())

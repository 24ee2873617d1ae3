"""The collector's program: reads this node, serves its page, until it is stopped."""

import argparse
import gc
import logging
import os
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Config, ConfigError, ConfigFileError, load
from lockstep.collector.contract import threads
from lockstep.collector.contract.visible import VisibleFormatter, visible_line
from lockstep.collector.contract.whole_file import write_whole
from lockstep.collector.contract.words import ExitCode
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.exporter.server import ListenError
from lockstep.collector.files.persistent_fds import raise_limit
from lockstep.collector.flags import EPILOG, FLAGS
from lockstep.collector.readings.source import SourceError
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.check import examined
from lockstep.collector.sampler.sampler import Sampler
from lockstep.collector.sampler.state import StateFile
from lockstep.collector.samples.monitor import collect_build

LOG = logging.getLogger("collector")

SWITCH_SECONDS = 0.001
"""A request waits so long at most for a thread that computes; Python's own default is 5 ms."""
SAVE_SECONDS = 30.0
"""How often counters are written to the state folder."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the collector; returns the exit code (words.ExitCode)."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("collector: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        options = _parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong; its 2 is our 64
        return ExitCode.USAGE if stop.code else ExitCode.OK
    try:
        if options.die_with_parent is not None:
            _die_with_parent(options.die_with_parent)
        flags = {flag.name: getattr(options, flag.name) for flag in FLAGS if flag.setting}
        config = load(options.config, os.environ, flags)
        clock = SystemClock()
        if options.capture is not None:
            return _capture(options.capture, config, clock)
        keep_memory_together()
        raise_limit()
        build = collect_build(_version(), platform.python_version())
        sampler = Sampler(feeds(config, clock), clock, config.ttl, build)
        if options.check:
            return _check(sampler)
        exporter = Exporter(config, sampler, clock, threads.samples)
        if options.once:
            return _once(sampler, exporter)
        state = None
        if config.state_dir is not None:
            state = StateFile(config.state_dir, config.proc)
        return _serve(sampler, exporter, options.announce, state)
    except ConfigError as error:
        LOG.error("%s", error)
        return ExitCode.BAD_INPUT if isinstance(error, ConfigFileError) else ExitCode.USAGE
    except ListenError as error:
        LOG.error("%s", error)
        return ExitCode.UNREACHABLE


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as the settings do."""

    def error(self, message: str) -> NoReturn:
        LOG.error("%s (see %s --help)", message.removeprefix("argument "), self.prog)
        raise SystemExit(ExitCode.USAGE)


def _process_id(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no process id; it must be a whole number")
    return int(text)


_KINDS: dict[str, Callable[[str], Any]] = {
    "config": Path,
    "announce": Path,
    "capture": Path,
    "die_with_parent": _process_id,
}
"""What values of flags become here; those of settings are read by the configuration."""


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="lockstep collect",
        description="Serve what this node knows as a Prometheus page.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    for flag in FLAGS:
        if flag.metavar:
            kind = _KINDS.get(flag.name, str)
            parser.add_argument(flag.option, metavar=flag.metavar, type=kind, help=flag.help)
        else:
            # None when it is not given: what the file and the environment say counts then.
            parser.add_argument(
                flag.option, action="store_const", const=True, default=None, help=flag.help
            )
    return parser


def _once(sampler: Sampler, exporter: Exporter) -> int:
    sampler.start()
    sampler.wait_ready()
    page = exporter.page()
    sampler.stop(timeout=0.0)
    _print(page.removesuffix("\n"))
    return ExitCode.OK


def _capture(folder: Path, config: Config, clock: SystemClock) -> int:
    from lockstep.collector.recorder.capture import capture

    try:
        _print(str(capture(folder, config, clock)))
    except (SourceError, OSError) as error:
        LOG.error("nothing was captured: %s", error)
        return ExitCode.UNREACHABLE
    return ExitCode.OK


def _check(sampler: Sampler) -> int:
    checks = examined(sampler)
    width = max(len(check.name) for check in checks)
    lines = (
        visible_line(f"{check.name:{width}}  {check.state:7}  {check.found}") for check in checks
    )
    _print("\n".join(lines))
    return ExitCode.OK


def _print(text: str) -> None:
    """To stdout; a reader that went away, as `head` does, is not an error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit: give it a file that nobody closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _serve(
    sampler: Sampler, exporter: Exporter, announce: Path | None, state: StateFile | None
) -> int:
    server = exporter.serve()
    if state is not None:
        _resume(sampler, state)
        _save(sampler, state)  # the file is not complete any more
    # Blocked in every thread and waited for below: a handler could interrupt a held lock.
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    sampler.start()
    server.start()
    sampler.wait_ready()
    answer_quickly()
    if announce is not None and not _announce(announce, str(server.address)):
        return ExitCode.USAGE
    LOG.info("serving %s", server.url)
    while (came := signal.sigtimedwait(ends, SAVE_SECONDS)) is None:
        _save(sampler, state)
    server.stop()
    sampler.stop()
    _save(sampler, state, last_word=True)
    return ExitCode.INTERRUPTED if came.si_signo == signal.SIGINT else ExitCode.OK


def answer_quickly() -> None:
    """Set the interpreter so that requests are not held up by threads that compute, or by gc."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # What start-up made stays for ever; going through it again and again takes some 10 ms.
    gc.collect()
    gc.freeze()


def keep_memory_together() -> None:
    """Have all threads take memory from one place; call it before there are any.

    glibc gives each thread a place of its own, between which freed memory does not move: 100,000
    scrapes left 5 MB more behind so. Threads of Python hardly wait for each other in there.
    """
    import ctypes

    m_arena_max = -8
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has one place anyway
        mallopt(m_arena_max, 1)


def _resume(sampler: Sampler, state: StateFile) -> None:
    try:
        sampler.resume(state.load())
        sampler.recall(state.memories())
    except SourceError as error:
        LOG.warning("%s; counters begin anew", error)


def _save(sampler: Sampler, state: StateFile | None, *, last_word: bool = False) -> None:
    if state is None:
        return
    try:
        state.save(sampler.kept(), sampler.memories(), last_word=last_word)
    except OSError as error:
        LOG.warning("cannot save %s: %s", state.path, error.strerror)


def _announce(path: Path, address: str) -> bool:
    """Write the address in one step, so that a reader never sees half of it."""
    try:
        write_whole(path, f"{address}\n", mode=None)
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


def _die_with_parent(parent: int) -> None:
    """Have the kernel send SIGTERM when the thread that started this process ends (prctl(2)).

    Args:
        parent: Its process id as it knew it: it may have ended while we were still importing.
    """
    import ctypes

    pr_set_pdeathsig = 1
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGTERM) != 0:
        raise ConfigError("--die-with-parent is not possible on this kernel")
    if os.getppid() != parent:  # it ended before the kernel knew
        raise SystemExit(ExitCode.OK)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)

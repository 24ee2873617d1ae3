"""Other names for what tells whose machine it is, alike everywhere and in the same form.

The pseudonym of a name is an HMAC (RFC 2104) of it with a random key that lives as long as this
object: nobody can go back, nor try names out. PCI addresses and numbers that are no identity stay.
"""

import hashlib
import hmac
import os
import pwd
import re
import secrets
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from lockstep.doctor.forms import (
    COMMON,
    COUNT,
    FORMS,
    HARDWARE,
    HOME,
    HOST_LIST,
    NOTHING,
    NUMBERED,
    OPEN_VARIABLE,
    REMOVED,
    SECRETS,
    TOLD,
    VARIABLE,
    Made,
    is_address,
    listed,
    word_of,
)

LEAST_NAME = 3
"""Characters of a name that is replaced wherever it stands as a word of its own."""
NUMBERS = frozenset({"serial", "guid", "mac"})
"""Kinds whose names may have decimal digits only."""
LEAST_SERIAL = 6
LEAST_SERIES = 2
"""Letters of a host's name by which other numbers make other hosts."""
MOST_SERIES = 200


class Pseudonyms:
    """Replaces; keeps count of what it replaced by kind.

    Args:
        hosts: Names of this machine and of others that it knows.
        users: Names of people on it.
        key: For tests; a random one otherwise.

    Attributes:
        replaced: How many different names of a kind were replaced.
    """

    def __init__(
        self, hosts: Iterable[str] = (), users: Iterable[str] = (), key: bytes | None = None
    ) -> None:
        self._key = key if key is not None else secrets.token_bytes(32)
        self._issued: dict[tuple[str, str], str] = {}
        self._pseudonyms: set[str] = set()
        self._secrets = 0
        self._names: dict[str, str] = {}
        self._series: dict[str, re.Pattern[str]] = {}
        for host in sorted(hosts, key=len, reverse=True):
            self._add_host(host)
        for user in users:
            self._learn(user, "user")
        self._words: re.Pattern[str] | None = None

    @property
    def replaced(self) -> dict[str, int]:
        """Different names by kind; `secret` counts each one that was removed."""
        found = Counter(kind for kind, _ in self._issued)
        return dict(sorted(found.items())) | ({"secret": self._secrets} if self._secrets else {})

    def learn(self, text: str) -> None:
        """Take over the names that a text tells as such, so that they are replaced everywhere."""
        for kind, pattern in TOLD:
            for match in pattern.finditer(text):
                name = match["name"].strip("\"'")
                if kind == "host" and is_address(name):
                    continue
                if NOTHING.fullmatch(name) is None:
                    self._learn(name, kind)
                    if kind == "host":
                        self._add_series(name.partition(".")[0])
        for match in HOST_LIST.finditer(text):
            for name in listed(match[0]):
                self._learn(name, "host")
        for kind, pattern, _ in FORMS:
            if kind in HARDWARE:  # the same may stand elsewhere without what makes it plain
                for match in pattern.finditer(text):
                    self._learn(_digits(match[_group(match)]), kind)

    def __call__(self, text: str) -> str:
        """The text with everything replaced; a second time changes what is left of no name."""
        for pattern in SECRETS:
            text = pattern.sub(self._removed, text)
        text = VARIABLE.sub(self._variable, text)
        for kind, pattern, made in FORMS:
            text = self._all_formed(kind, pattern, made, text)
        text = HOME.sub(self._home, text)
        text = HOST_LIST.sub(self._listed, text)
        for pattern in self._series.values():
            text = pattern.sub(lambda one: self._word("host", one[0]), text)
        return self._known().sub(lambda one: self._word(self._names[one[0].lower()], one[0]), text)

    def _removed(self, match: re.Match[str]) -> str:
        keep = match.groupdict().get("keep") or ""
        value = match[0][len(keep) :].strip("\"'")
        if value == REMOVED or ("tokens" in keep.lower() and COUNT.fullmatch(value)):
            return match[0]
        self._secrets += 1
        quote = match.groupdict().get("quote") or ""
        return f"{keep}{quote}{REMOVED}{quote}"

    def _variable(self, match: re.Match[str]) -> str:
        value = match[2].strip("\"'")
        if OPEN_VARIABLE.fullmatch(match[1]) or NOTHING.fullmatch(value):
            return match[0]
        self._secrets += 1
        return f"{match[1]}={REMOVED}"

    def _all_formed(self, kind: str, pattern: re.Pattern[str], made: Made, text: str) -> str:
        return pattern.sub(lambda one: self._formed(kind, one, made), text)

    def _formed(self, kind: str, match: re.Match[str], made: Made) -> str:
        group = _group(match)
        name, before = match[group], match.start(group) - match.start()
        if name in self._pseudonyms or (kind == "serial" and NOTHING.fullmatch(name)):
            return match[0]
        known = self._names.get(name.lower(), kind)
        if kind in HARDWARE or known in {kind, *HARDWARE}:
            pseudonym = self._pseudonym(kind, name, made)
        else:  # another place says what it is, and there it is called so
            pseudonym = self._word(known, name)
        if pseudonym is None:
            return match[0]
        return f"{match[0][:before]}{pseudonym}{match[0][before + len(name) :]}"

    def _listed(self, match: re.Match[str]) -> str:
        hosts = listed(match[0])
        return ",".join(self._word("host", one) for one in hosts) if hosts else match[0]

    def _home(self, match: re.Match[str]) -> str:
        user = "" if match["user"] is None else "/" + self._word("user", match["user"])
        rest = (match["rest"] or "").strip("/")
        return f"{match['root'] or match['other']}{user}" + (
            f"/{self._word('path', rest)}" if rest else ""
        )

    def _word(self, kind: str, name: str) -> str:
        if name in self._pseudonyms:
            return name
        return self._pseudonym(kind, name, HARDWARE.get(kind) or word_of(kind)) or name

    def _pseudonym(self, kind: str, name: str, made: Made) -> str | None:
        plain = self._plain(kind, name)
        if (kind, plain) not in self._issued:
            same = _digits(plain) if kind in HARDWARE else plain
            pseudonym = made(name, self._digest(kind, same))
            if pseudonym is None:
                return None
            self._issued[kind, plain] = pseudonym
            self._pseudonyms.add(pseudonym)
        return self._issued[kind, plain]

    def _plain(self, kind: str, name: str) -> str:
        """What is equal of names of the same: of our hosts, their domain is left out."""
        plain = name.lower()
        short = plain.partition(".")[0]
        if kind == "host" and (short in self._names or self._in_series(short)):
            return short
        return plain

    def _in_series(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self._series.values())

    def _digest(self, kind: str, plain: str) -> str:
        return hmac.new(self._key, f"{kind}:{plain}".encode(), hashlib.sha256).hexdigest()

    def _add_host(self, host: str) -> None:
        self._learn(host, "host")
        short = host.partition(".")[0]
        self._learn(short, "host")
        self._add_series(short)

    def _add_series(self, short: str) -> None:
        """Names of one series: gpu-node-07 tells that gpu-node-08 is a machine, too."""
        letters = re.sub(r"\d+", "", short).strip("-_.").lower()
        if not any(one.isdigit() for one in short) or len(letters) < LEAST_SERIES:
            return
        if letters in COMMON | NUMBERED or len(self._series) >= MOST_SERIES:
            return
        series = re.sub(r"\d+", r"\\d+", re.escape(short.lower()).replace(r"\-", "-"))
        self._series[series] = re.compile(
            rf"(?<![\w-]){series}(?:\.[A-Za-z][\w.-]*\w)?(?![\w-])", re.IGNORECASE
        )

    def _learn(self, name: str, kind: str) -> None:
        plain = name.lower()
        fits = len(plain) >= LEAST_NAME and plain not in COMMON
        fits = fits and (not plain.isdecimal() or (kind in NUMBERS and len(plain) >= LEAST_SERIAL))
        if fits and name not in self._pseudonyms and plain not in self._names:
            self._names[plain] = kind
            self._words = None

    def _known(self) -> re.Pattern[str]:
        if self._words is None:
            names = "|".join(re.escape(one) for one in sorted(self._names, key=len, reverse=True))
            self._words = re.compile(
                rf"(?:(?<![A-Za-z0-9])|(?<=0x))(?:{names})(?![A-Za-z0-9])" if names else r"(?!)",
                re.IGNORECASE,
            )
        return self._words


def _digits(name: str) -> str:
    """An address is the same with colons, with hyphens and without."""
    return re.sub(r"[^0-9a-z]", "", name.lower())


def _group(match: re.Match[str]) -> str | int:
    """What of it is the name."""
    return "name" if "name" in match.re.groupindex else 0


# Names of this machine, of machines that it knows, and of its users.

HUMANS = range(1000, 60_000)
"""User ids of people (login.defs(5), UID_MIN and UID_MAX)."""
MOST_NAMES = 5000
_HOST_VARIABLES = ("HOSTNAME", "NODE_NAME", "LOCKSTEP_NODE", "SLURMD_NODENAME")
_USER_VARIABLES = ("USER", "LOGNAME", "SUDO_USER", "SLURM_JOB_USER")
_LOOPBACK = ("localhost", "ip6-", "broadcasthost")


def hosts(environment: Mapping[str, str], etc: Path = Path("/etc")) -> set[str]:
    """Host names; names of the loopback are nobody's."""
    found = {socket.gethostname(), os.uname().nodename}
    found |= {environment.get(name, "") for name in _HOST_VARIABLES}
    for line in _lines(etc / "hosts"):
        found.update(line.partition("#")[0].split()[1:])
    return {name for name in found if name and not name.startswith(_LOOPBACK)}


def users(environment: Mapping[str, str]) -> set[str]:
    """Names of people's accounts."""
    found = {environment.get(name, "") for name in _USER_VARIABLES}
    found.add(Path(environment.get("HOME", "")).name)
    for index, entry in enumerate(pwd.getpwall()):
        if entry.pw_uid in HUMANS and index < MOST_NAMES:
            found.add(entry.pw_name)
    return {name for name in found if name}


def _lines(path: Path) -> list[str]:
    try:
        with path.open(errors="replace") as file:
            return file.read(1 << 20).splitlines()[:MOST_NAMES]
    except OSError:
        return []

"""What others' controllers do with a manifest, a file each: defaults, refusals, what may change.

Rules written from their sources and documentation, of the version that each file names; no code of
theirs. A CEL rule of a published CRD is a row here with the field and the message, since the API
server of the tests (1.20) has no CEL; structural schemas are judged by that server where it runs
(tests/cluster/test_controllers.py) and by jsonschema everywhere.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

Manifest = dict[str, Any]
Rule = tuple[str, Callable[[Manifest], bool]]
"""What is said when it does not hold, and whether it holds."""

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
DNS_1123_SUBDOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
DOMAIN_PATH = re.compile(
    r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9._~%!$&'()*+,;=:@/]+", re.ASCII
)


class InvalidError(Exception):
    """A manifest that is refused; every reason is a sentence."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


def at(manifest: Any, path: str, default: Any = None) -> Any:
    """What lies at `a.b.0.c`; -1 is the last."""
    for name in path.split("."):
        try:
            manifest = manifest[int(name) if isinstance(manifest, list) else name]
        except (KeyError, IndexError, ValueError, TypeError):
            return default
    return default if manifest is None else manifest


def broken(manifest: Manifest, rules: Sequence[Rule]) -> list[str]:
    """What is said of it."""
    return [message for message, holds in rules if not holds(manifest)]


def unchanged(before: Manifest, after: Manifest, paths: Sequence[str], message: str) -> list[str]:
    """Fields that may not change, and did."""
    return [f"{path}: {message}" for path in paths if at(before, path) != at(after, path)]


def filled(manifest: Manifest, defaults: Mapping[str, Any]) -> Manifest:
    """With what is not given; a default of a field whose parent is absent is left out."""
    whole = deepcopy(manifest)
    for path, value in defaults.items():
        *parents, last = path.split(".")
        for place in _places(whole, parents):
            if isinstance(place, dict) and place.get(last) is None:
                place[last] = deepcopy(value)
    return whole


def _places(place: Any, parents: Sequence[str]) -> Iterator[Any]:
    if not parents:
        yield place
    elif parents[0] == "*":
        for each in place or ():
            yield from _places(each, parents[1:])
    elif isinstance(place, dict) and place.get(parents[0]) is not None:
        yield from _places(place[parents[0]], parents[1:])

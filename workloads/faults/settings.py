"""The words of a SPEC, `KIND:NAME=VALUE,NAME=VALUE`, as checked numbers."""

import math
from collections.abc import Mapping


class FaultError(ValueError):
    """A fault SPEC is wrong or cannot be injected here."""


class DisturbanceError(ValueError):
    """A disturbance SPEC is wrong or cannot be made here."""


class Words:
    """The settings of one SPEC; each is taken once, and what nobody takes is unknown.

    Args:
        what: `fault` or `disturbance`, for messages.
        error: What a wrong setting raises.
        spec: The SPEC as it was given.
        text: What follows the kind.
    """

    def __init__(self, what: str, error: type[ValueError], spec: str, text: str) -> None:
        self._what, self._error, self._spec = what, error, spec
        self._known: list[str] = []
        self._words: dict[str, str] = {}
        for part in filter(None, text.split(",")):
            name, equals, value = part.partition("=")
            if not equals or not value:
                raise self.wrong(f"{part!r} is not NAME=VALUE")
            if name in self._words:
                raise self.wrong(f"{name} is given twice")
            self._words[name] = value

    def wrong(self, why: str) -> ValueError:
        """The error to raise: which SPEC, and why."""
        return self._error(f"{self._what} {self._spec!r}: {why}")

    def word(self, name: str) -> str | None:
        """A setting's text; None where it is not given."""
        self._known.append(name)
        return self._words.pop(name, None)

    def words(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """Those of some settings that are given."""
        values = {name: self.word(name) for name in names}
        return {name: text for name, text in values.items() if text is not None}

    def integer(self, name: str) -> int | None:
        """A whole number from 0."""
        text = self.word(name)
        return None if text is None else self.whole(name, text)

    def whole(self, name: str, text: str) -> int:
        """Some text as a whole number from 0."""
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise self.wrong(f"{name}={text[:40]} is not a whole number from 0")
        return int(text)

    def number_below(self, name: str, count: int) -> int | None:
        """A whole number below a count."""
        value = self.integer(name)
        if value is not None and value >= count:
            raise self.wrong(f"there is no {name} {value}; {name}s are 0 to {count - 1}")
        return value

    def number(self, name: str) -> float | None:
        """A number."""
        text = self.word(name)
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            raise self.wrong(f"{name}={text[:40]} is not a number") from None

    def factor(self, default: float, most: float) -> float:
        """The setting `factor`: above 1, at most `most`."""
        factor = self.number("factor")
        factor = default if factor is None else factor
        if not (math.isfinite(factor) and 1.0 < factor <= most):
            raise self.wrong(f"factor {factor:g} must be above 1 and at most {most:g}")
        return factor

    def close(self) -> None:
        """Every setting has been taken: what is left nobody knows."""
        if self._words:
            raise self.wrong(
                f"unknown setting {next(iter(self._words))!r}; one of {', '.join(self._known)}"
            )

"""Quantities of Kubernetes: `500m`, `8`, `3840Mi`, `1e3`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
"""

import re
from fractions import Fraction

_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_SCALES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
}  # fmt: skip
_BINARY = {f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)}


def parsed(text: object) -> Fraction:
    """The number; 0 of what is none, for only the API itself writes quantities."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        return Fraction(0)
    suffix = found["suffix"] or ""
    number = Fraction(found["number"])
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return number * Fraction(10) ** int(suffix[1:])
    return number * (_BINARY.get(suffix) or _SCALES.get(suffix) or 1)


def format_quantity(number: Fraction) -> str:
    """In words of people: whole numbers as they are, bytes in GiB."""
    if number >= 1 << 30:
        return f"{float(number / (1 << 30)):.3g}Gi"
    return str(number) if number.denominator == 1 else f"{float(number):.3g}"

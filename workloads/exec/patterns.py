"""Lines in which training programs say how far they are."""

import math
import re
from dataclasses import dataclass

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Colours and cursor movements."""

BUILT_IN: dict[str, str] = {
    # NVIDIA/Megatron-LM training.py, training_log
    "Megatron-LM": rf"iteration +(?P<step>\d+)/ *\d+ \|(?:.*?\blm loss: (?P<loss>{_NUMBER}))?",
    # pytorch/torchtitan components/metrics.py
    "torchtitan": rf"\bstep: *(?P<step>\d+) +loss: *(?P<loss>{_NUMBER})",
    # huggingface/picotron train.py
    "picotron": rf"\bStep: (?P<step>\d+) *\| Loss: *(?P<loss>{_NUMBER})",
    # keras/src/utils/progbar.py: 12/100 ━━━━ 0s 5ms/step - loss: 0.25, before Keras 3 [===>...]
    "Keras": rf"^ *(?P<step>\d+)/\d+ (?:━|\[[=>.])(?:.*?\bloss: (?P<loss>{_NUMBER}))?",
    # tqdm's bar, of Hugging Face's Trainer and Lightning: 12/100 [00:01<00:09, 9.9it/s, loss=0.2]
    "tqdm": rf"(?P<step>\d+)/(?:\d+|\?) \[\d+:\d\d(?:.*?loss=(?P<loss>{_NUMBER}))?",
    # Written by hand: step 12, loss 0.25 · Iter [12/100] Loss: 0.25
    "plain": rf"\b(?:step|iter|iteration)\b[ \[:=#]*(?P<step>\d+)\b"
    rf"(?:.*?\bloss\b[ :=]*(?P<loss>{_NUMBER}))?",
}
"""Name -> expression; the first that fits a line is kept for the rest of the log."""


class PatternError(ValueError):
    """An expression cannot find steps; the message says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one line says; `loss` is NaN where it says none."""

    step: int
    loss: float


class StepPattern:
    """Finds steps in the lines of one log."""

    def __init__(self, expression: str | None = None) -> None:
        self._known = (
            [re.compile(each, re.IGNORECASE) for each in BUILT_IN.values()]
            if expression is None
            else [compiled(expression)]
        )

    def find(self, line: str) -> Said | None:
        """What the line says, if it is about a step."""
        text = _ESCAPES.sub("", line[:LONGEST_LINE])
        for pattern in self._known:
            match = pattern.search(text)
            if match:
                self._known = [pattern]
                return _said(match)
        return None


def compiled(expression: str) -> re.Pattern[str]:
    """The expression of `--step-pattern`.

    Raises:
        PatternError: It is none, or has no group named step.
    """
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise PatternError(f"{expression!r} is not a regular expression: {error}") from None
    if "step" not in pattern.groupindex:
        raise PatternError(
            rf"{expression!r} has no group named step; as 'step (?P<step>\d+) loss (?P<loss>\S+)'"
        )
    return pattern


def _said(match: re.Match[str]) -> Said | None:
    groups = match.groupdict()
    try:
        step = int(groups["step"])
        loss = float(groups.get("loss") or math.nan)
    except (TypeError, ValueError):
        return None
    return Said(step, loss) if 0 <= step < 1 << 62 else None

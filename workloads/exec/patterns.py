"""Lines in which training programs say how far they are."""

import math
import re
from dataclasses import dataclass

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
_STEP = r"(?P<step>\d{1,3}(?:[,_]\d{3})+(?!\d)|\d+)"
"""Also with thousands separators, as in 1,200."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Colours and cursor movements."""

BUILT_IN: dict[str, str] = {
    # NVIDIA/Megatron-LM training.py, training_log
    "Megatron-LM": rf"iteration +{_STEP}/ *\d+ \|(?:.*?\blm loss: (?P<loss>{_NUMBER}))?",
    # pytorch/torchtitan components/metrics.py
    "torchtitan": rf"\bstep: *{_STEP} +loss: *(?P<loss>{_NUMBER})",
    # huggingface/picotron train.py
    "picotron": rf"\bStep: {_STEP} *\| Loss: *(?P<loss>{_NUMBER})",
    # keras/src/utils/progbar.py: 12/100 ━━━━ 0s 5ms/step - loss: 0.25, before Keras 3 [===>...]
    "Keras": rf"^ *{_STEP}/\d+ (?:━|\[[=>.])(?:.*?\bloss: (?P<loss>{_NUMBER}))?",
    # tqdm's bar, of Hugging Face's Trainer and Lightning: 12/100 [00:01<00:09, 9.9it/s, loss=0.2]
    "tqdm": rf"(?<![\d.,_]){_STEP}/(?:[\d,_]+|\?) \[\d+:\d\d(?:.*?loss=(?P<loss>{_NUMBER}))?",
    # Written by hand: step 12, loss 0.25 · Iter [12/100] Loss: 0.25
    "plain": rf"\b(?:step|iter|iteration)\b[ \[:=#]*{_STEP}\b"
    rf"(?:.*?\bloss\b[ :=]*(?P<loss>{_NUMBER}))?",
}
"""Name -> expression."""

_EVALUATION = r"val|valid\w*|eval\w*|test\w*|predict\w*|sanity"
_OTHER: dict[str, re.Pattern[str]] = {
    # Bars of datasets (arrow_dataset.py, builder.py), huggingface_hub and transformers, and of
    # Lightning's evaluation (callbacks/progress/tqdm_progress.py), by the word before them.
    "tqdm": re.compile(
        rf"\b(?:{_EVALUATION}|map|filter|cast\w*|flatten\w*|group\w*|concatenat\w*|shuffl\w*"
        r"|generating|resolving|sav(?:e|ing)|creating|comput\w*|verif\w*|tokeniz\w*|encod\w*"
        r"|download\w*|upload\w*|fetch\w*|load(?:ing)?|extract\w*|unpack\w*|convert\w*"
        r"|pre-?process\w*|prepar\w*|pack\w*|index\w*|infer\w*|sampling|writing|reading)\b",
        re.IGNORECASE,
    ),
    "plain": re.compile(rf"\b(?:{_EVALUATION})[\] :_-]*$", re.IGNORECASE),
}
"""Name -> what stands before a number that is no training step."""


class PatternError(ValueError):
    """An expression cannot find steps; the message says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one line says.

    Attributes:
        loss: NaN where it says none.
        form: Name of the form that it has; empty for an expression of the user.
        tells_loss: Whether the line has a loss; it may be NaN.
    """

    step: int
    loss: float
    form: str = ""
    tells_loss: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a step."""

    name: str
    expression: re.Pattern[str]

    def find(self, line: str) -> Said | None:
        """What the line says, if it is about a step of training."""
        text = _ESCAPES.sub("", line[:LONGEST_LINE])
        match = self.expression.search(text)
        if match is None:
            return None
        other = _OTHER.get(self.name)
        if other is not None and other.search(text[: match.start()]):
            return None
        return _said(match, self.name)


def known_forms() -> tuple[Form, ...]:
    """The built-in ones; where a line fits several, the first is the most special."""
    return tuple(
        Form(name, re.compile(expression, re.IGNORECASE)) for name, expression in BUILT_IN.items()
    )


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


def _said(match: re.Match[str], form: str) -> Said | None:
    groups = match.groupdict()
    told = groups.get("loss")
    try:
        step = int(groups["step"].replace(",", ""))
        loss = float(told or math.nan)
    except (AttributeError, TypeError, ValueError):
        return None
    return Said(step, loss, form, bool(told)) if 0 <= step < 1 << 62 else None

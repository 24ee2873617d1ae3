"""Lines in which training programs say how far they are."""

import math
import re
from dataclasses import dataclass, replace

LONGEST_LINE = 4096
"""Characters of a line that are looked at."""
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|nan|inf)"
_WHOLE = r"\d{1,3}(?:[,_]\d{3})+(?!\d)|\d+"
"""Also with thousands separators, as in 1,200."""
_NO_TIME = r"(?!:\d\d|-\d| ?(?:%|(?:[mun]?s|secs?|seconds?|min|it/s|[KMG]B)\b))"
"""After a whole number: it is neither a time, nor a duration, nor a size."""
_ENDS = r"(?![.,](?:[^ \tA-Za-z\"']|$))(?=[][ \t,:;|/(){}<>\"'%-]|$)"
"""What stands after a number that is whole: nothing that could have stood in it."""
_STEP = rf"(?P<step>{_WHOLE}){_ENDS}"
_TOTAL = rf" *(?:/|\bof\b) *(?P<total>{_WHOLE})"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
"""Colours and cursor movements."""

BUILT_IN: dict[str, str] = {
    # NVIDIA/NeMo nemo/lightning/pytorch/callbacks/progress_printer.py
    "NeMo": rf"\bTraining epoch \d+, iteration {_STEP}{_TOTAL} \|",
    # modelscope/ms-swift, its messages for the Trainer's log: 'global_step/max_steps': '5/873'
    "ms-swift": rf"[\"']global_step/max_steps[\"']: *[\"']{_STEP}{_TOTAL}[\"']",
    # NVIDIA/Megatron-LM training.py, training_log; EleutherAI/gpt-neox logging.py
    "Megatron-LM": rf"\biteration +{_STEP}{_TOTAL} \|",
    # pytorch/torchtitan components/metrics.py
    "torchtitan": rf"\bstep: *{_STEP} +loss:",
    # huggingface/picotron train.py
    "picotron": rf"\bStep: {_STEP} *\| Loss:",
    # deepspeedai/DeepSpeed runtime/engine.py, _report_progress
    "DeepSpeed": rf"\bstep={_STEP}, skipped=\d+, lr=",
    # deepspeedai/DeepSpeed utils/timer.py, ThroughputTimer.stop; before 0.7 as 0/40
    "DeepSpeed timer": rf"(?:\bglobal_step=|\b\d+/){_STEP}, (?:RunningAvg)?SamplesPerSec=",
    # AI-Hypercomputer/maxtext metric_logger.py
    "MaxText": rf"\bcompleted step: {_STEP}, seconds:",
    # tqdm_loggable/tqdm_logging.py, as levanter uses it: 200it/1.00kit or 200.000000/1000.000000
    "tqdm_loggable": r"\bProgress on:.*?(?<=[ \t])(?P<step>\d+(?=(?:\.0+)?(?:it)?/)"
    r"|\d+(?:\.\d+)?k(?=it/))(?:\.0+)?(?:it)?/\S* rate:",
    # open-mmlab/mmengine runner/log_processor.py, get_log_after_iter
    "mmengine": rf"\b(?:Epoch\(train\) *\[ *\d+\]|Iter\(train\) *)\[ *{_STEP}{_TOTAL}\]",
    # open-mmlab/mmcv 1 runner/hooks/logger/text.py, as mmdet 2 has it
    "mmcv": rf"\b(?:Epoch \[\d+\]|Iter )\[ *{_STEP}{_TOTAL}\]\s+lr:",
    # microsoft/Swin-Transformer main.py, train_one_epoch
    "Swin": rf"\bTrain: \[ *\d+/\d+\]\[ *{_STEP}{_TOTAL}\]",
    # huggingface/pytorch-image-models train.py
    "timm": rf"\bTrain: \d+ \[ *{_STEP}{_TOTAL} ",
    # pytorch/vision references utils.py, MetricLogger; pytorch/examples imagenet/main.py
    "torchvision": rf"\bEpoch: ?\[ *\d+\] *\[ *{_STEP}{_TOTAL}\]",
    # tensorflow slim/learning.py; its estimators, basic_session_run_hooks.py
    "TensorFlow slim": rf"\bglobal step {_STEP}: loss =",
    "TensorFlow": rf"\bloss = {_NUMBER}, step = {_STEP}\b",
    # facebookresearch/fairseq logging/progress_bar.py
    "fairseq": rf"\bepoch \d+: +\d+ / \d+ .*?\bnum_updates={_STEP}",
    # mosaicml/composer loggers/console_logger.py; allenai/OLMo train.py
    "Composer": rf"\[(?:batch|step)={_STEP}{_TOTAL}[\],]",
    # keras/src/utils/progbar.py: 12/100 ━━━━ 0s 5ms/step - loss: 0.25, before Keras 3 [===>...]
    "Keras": rf"^ *{_STEP}{_TOTAL} (?:━|\[[=>.])",
    # rich's bar as Lightning has it: Epoch 0/9 ━━━╸━━ 12/100 0:00:01 • 0:00:09 9.90it/s
    "rich": rf"━[━╸╺ ]*{_STEP}{_TOTAL} +\d+:\d\d",
    # tqdm's bar, of Hugging Face's Trainer and Lightning: 12/100 [00:01<00:09, 9.9it/s, loss=0.2]
    "tqdm": rf"(?<=[ \t|:%\]]){_STEP}/(?:(?P<total>[\d,_]+)|\?) \[\d+:\d\d",
    # Written by hand: step 12, loss 0.25 · Iter [12/100] Loss: 0.25 · {"step": 12, "loss": 0.25};
    # MindSpore: step: 12, loss is 0.25; Paxml: step_i: 12; LLaMA-Factory: "current_steps": 12
    "plain": r"(?<![^][ \t|:,;({\"'>])(?:(?:global|train|training|optimizer|completed)[ _])?"
    r"(?:step|step_i|iter|iteration|num_updates|current_steps|batch)\b"
    rf"[\"']?[ \[:=#(]*{_STEP}{_NO_TIME}(?:{_TOTAL})?",
}
"""Name -> expression; where a line fits several, the first is the most special."""

SURE = frozenset({*BUILT_IN, "MLPerf"}) - {"plain"}
"""Forms that nothing but a loop writes: one that rises once is believed."""

_LOSS = re.compile(
    rf"(?<![^][ \t|:,;({{\"'>])(?<!val )(?<!valid )(?<!validation )"
    r"(?<!eval )(?<!evaluation )(?<!test )"
    rf"(?:(?:lm|train|training|reduced_train|total|avg|avr|mean)[ _])?loss(?:_step|[ _]train)?"
    rf"[\"']?(?: *[:=] *| +(?:is +)?)[\"']?(?P<loss>{_NUMBER}){_ENDS}",
    re.IGNORECASE,
)
"""`lm loss:` of Megatron, `lm_loss:` of GPT-NeoX, `reduced_train_loss` of NeMo, `total_loss`."""
_ALONE = re.compile(
    r"^\s*\{(?!.*\btrain_runtime\b).*(?P<quote>[\"'])(?:learning_rate|epoch)(?P=quote):.*\}\s*$"
)
"""A line of Hugging Face's Trainer (trainer_callback.py, on_log): it tells a loss, and no step. The
one with train_runtime tells the mean of all, at the end (trainer.py, train)."""

_EVALUATION = r"val|valid\w*|eval\w*|test\w*|predict\w*|sanity"
_BARS = re.compile(
    # Bars of datasets (arrow_dataset.py, builder.py), huggingface_hub and transformers, and of
    # Lightning's evaluation (callbacks/progress/tqdm_progress.py), by the word before them.
    rf"\b(?:{_EVALUATION}|map|filter|cast\w*|flatten\w*|group\w*|concatenat\w*|shuffl\w*"
    r"|generating|resolving|sav(?:e|ing)|creating|comput\w*|verif\w*|tokeniz\w*|encod\w*"
    r"|download\w*|upload\w*|fetch\w*|load(?:ing)?|extract\w*|unpack\w*|convert\w*"
    r"|pre-?process\w*|prepar\w*|pack\w*|index\w*|infer\w*|sampling|writing|reading)\b",
    re.IGNORECASE,
)
_OTHER: dict[str, re.Pattern[str]] = {
    "tqdm": _BARS,
    "tqdm_loggable": _BARS,
    "rich": _BARS,
    # Also DeepSpeed's timers: time (ms) | forward: 652 | step: 1172
    "plain": re.compile(rf"\b(?:{_EVALUATION})[\] :_-]*$|\btimes? *\([mun]?s\)", re.IGNORECASE),
}
"""Name -> what stands before a number that is no training step."""
_DIGITS = re.compile(r"[\d \t]+")
_PERCENT = re.compile(r"\d+% *[|━╸╺ ].*$")
_WORD = re.compile(r"([^\W\d_]+)[^\w]*$")
_NAME = re.compile(r"([^\W\d_]+)[\W\d_]*$")
"""The last word, after which numbers may stand, as in Epoch 3:."""


MICRO, BATCH, ITERATION, STEP, UPDATE = range(5)
RANKS = {
    "batch": BATCH, "iter": ITERATION, "iteration": ITERATION, "step i": STEP, "step": STEP,
    "train step": STEP, "training step": STEP, "current steps": STEP, "num updates": UPDATE,
    "global step": UPDATE, "optimizer step": UPDATE, "completed step": UPDATE,
}  # fmt: skip
"""Name of a counter -> how sure it makes it that one step of the optimizer moves it by one. Where
gradients are accumulated, batches and iterations are parts of a step: `iter 6 step 3` of litgpt."""
_PARTS = frozenset({"micro", "mini", "sub", "accumulation", "accum"})
"""Before a counter: it counts parts of a step."""
_COUNTER = re.compile(r"[a-z]+(?:[ _][a-z]+)*", re.IGNORECASE)
_SAMPLES = re.compile(
    r":::MLLOG\b.*\"metadata\": *\{[^{}]*\"(?P<name>step|samples?_count)\": *(?P<step>\d+)"
)
"""mlcommons/logging mllog: how many samples were trained on, whatever the key is called."""
_KEY = re.compile(r"\"key\": *\"(\w+)\"")
_MLPERF_LOSS = re.compile(
    rf"\"(?:reduced_train_loss|train_loss|loss|value)\": *(?P<loss>{_NUMBER})(?![\w.])"
)
_BATCH = re.compile(
    r"\bglobal[ _]batch[ _]size[\"']?(?:, *\"value\")? *[:=] *[\"']?(?P<size>\d{1,9})\b",
    re.IGNORECASE,
)


class PatternError(ValueError):
    """An expression cannot find steps; the message says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one line says.

    Attributes:
        loss: NaN where it says none.
        form: Name of the form that it has; empty for an expression of the user.
        tells_loss: Whether the line has a loss; it may be NaN.
        word: What stands right before the number, in small letters: a warm-up is another loop.
        total: How many steps there are to be; None where it says none.
        rank: How sure its name makes it that the optimizer moves it (RANKS); of counters in one
            line the highest counts.
    """

    step: int
    loss: float
    form: str = ""
    tells_loss: bool = False
    word: str = ""
    total: int | None = None
    rank: int = STEP

    @property
    def loop(self) -> tuple[str, str, int | None]:
        """Lines of one loop have this in common."""
        return self.form, self.word, self.total


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a step."""

    name: str
    expression: re.Pattern[str]

    def find_all(self, line: str) -> list[Said]:
        """What the line says, by every counter in it: of one written by hand several may move."""
        if self.name != "plain":
            said = self.find(line)
            return [] if said is None else [said]
        text = cleaned(line)
        candidates: dict[tuple[str, str], set[Said]] = {}
        for match in self.expression.finditer(text):
            before = text[: match.start()]
            if _OTHER["plain"].search(before):
                continue
            word = _last_word(_WORD, before)
            counter = _COUNTER.match(match[0])
            name = "" if counter is None else counter[0].lower().replace("_", " ")
            said = _said(match, self.name, text, word)
            if said is not None:
                said = replace(said, rank=MICRO if word in _PARTS else RANKS.get(name, STEP))
                candidates.setdefault((word, name), set()).add(said)
        # Twice the same counter with other numbers: two lines were written into each other.
        unambiguous = {key: said.pop() for key, said in candidates.items() if len(said) == 1}
        if len(candidates) == 1:
            return list(unambiguous.values())
        return [replace(said, word=f"{word} {name}") for (word, name), said in unambiguous.items()]

    def find(self, line: str) -> Said | None:
        """What the line says, if it is about a step of training."""
        text = cleaned(line)
        match = self.expression.search(text)
        if match is None or _contradicted(match, text):
            return None
        other, word = _OTHER.get(self.name), ""
        if other is not None:
            before = text[: match.start("step" if other is _BARS else 0)]
            if other.search(before):
                return None
            word = _last_word(_NAME if other is _BARS else _WORD, before)
        return _said(match, self.name, text, word)


def _last_word(form: re.Pattern[str], before: str) -> str:
    named = form.search(_PERCENT.sub("", before))
    return "" if named is None else named[1].lower()


def cleaned(line: str) -> str:
    """The line without colours and cursor movements; of a long one, whole words."""
    text = line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE].rpartition(" ")[0]
    return _ESCAPES.sub("", text)


def said_of_samples(line: str, batch: int) -> Said | None:
    """The step that a line of MLPerf's log tells by the samples that it counts.

    Args:
        batch: Samples of a step.
    """
    match = _SAMPLES.search(cleaned(line))
    if match is None:
        return None
    number, rest = divmod(int(match["step"]), batch)
    if rest:  # samples come in whole batches, and steps one by one
        return (
            Said(int(match["step"]), math.nan, "MLPerf step") if match["name"] == "step" else None
        )
    key = _KEY.search(line)
    trained = key is not None and key[1] in ("train_loss", "tracked_stats", "loss")
    loss = (_MLPERF_LOSS.search(line) if trained else None) or {"loss": "nan"}
    value = float(loss["loss"])
    return Said(number, value, "MLPerf", not math.isnan(value))


def is_mlperf(line: str) -> bool:
    """Whether the line is one of MLPerf's log, in which no number is a step by its name."""
    return ":::MLLOG" in line


def batch_size(line: str) -> int | None:
    """The global batch size that a line tells; None where it tells none."""
    match = _BATCH.search(cleaned(line))
    return None if match is None or int(match["size"]) == 0 else int(match["size"])


def loss_alone(line: str) -> float | None:
    """The loss of a line that tells one, of one of which no form tells a step."""
    text = cleaned(line)
    if _ALONE.match(text) is None:
        return None
    match = _LOSS.search(text)
    return None if match is None else float(match["loss"])


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


def _contradicted(match: re.Match[str], text: str) -> bool:
    """Whether a line says the same twice with other numbers: two were written into each other."""
    words = _DIGITS.sub("", match[0])
    others = match.re.finditer(text, match.end())
    return any(other[0] != match[0] and _DIGITS.sub("", other[0]) == words for other in others)


def _said(match: re.Match[str], form: str, text: str, word: str) -> Said | None:
    groups = match.groupdict()
    told = groups.get("loss") if "loss" in groups else (_LOSS.search(text) or {"loss": ""})["loss"]
    try:
        step = _whole(groups["step"])
        loss = float(told or math.nan)
        total = _whole(groups["total"]) if groups.get("total") else None
    except (AttributeError, TypeError, ValueError):
        return None
    if not 0 <= step < 1 << 62:
        return None
    return Said(step, loss, form, bool(told), word, total)


def _whole(text: str) -> int:
    """`1,200`, `1_200`, or `1.23k` of a bar."""
    if text.endswith("k"):
        return round(1000 * float(text[:-1]))
    return int(text.replace(",", "").replace("_", ""))

"""Lines of training programs as they write them, each with what it says; and real logs."""

import math
from pathlib import Path
from typing import Any

from lockstep.workloads.launch.external_program.choice import Choice
from lockstep.workloads.launch.external_program.patterns import Said, cleaned, known_forms
from tests.wild import SHARED

# Each as its program writes it; of Keras 3.15 and tqdm 4.70 copied from a run of theirs.
MEGATRON = (
    " [2026-08-01 12:00:00] iteration      120/    500 | consumed samples:         7680 |"
    " elapsed time per iteration (ms): 641.2 | learning rate: 6.000000E-05 |"
    " global batch size:    64 | lm loss: 8.934520E+00 | loss scale: 1.0 | grad norm: 2.310 |"
)
NEOX = (
    " samples/sec: 7.799 | iteration       34/   10000 | elapsed time per iteration (ms): 4103.1 |"
    " learning rate: 2.111E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 |"
)
NEMO = (
    "Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 |"
    " reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106"
)
TITAN = (
    "[titan] INFO - \x1b[31mstep: 30  \x1b[32mloss:  7.21540  \x1b[33mgrad_norm:  1.2000"
    "  memory: 10.10GiB(12.00%)  tps: 5,762  tflops: 300.12  mfu: 33.20%"
)
MMENGINE = (
    "2026/08/01 12:00:00 - mmengine - INFO - Epoch(train)  [3][ 50/469]  lr: 1.0000e-02"
    "  eta: 0:04:56  time: 0.0316  data_time: 0.0035  memory: 1  loss_bbox: 0.3  loss: 2.2507"
)
MMCV = (
    "2026-08-01 12:00:00,494 - mmdet - INFO - Epoch [1][1200/7517]\tlr: 0.00125, eta: 4:44:04,"
    " time: 0.593, memory: 6836, loss_rpn_cls: 0.0927, acc: 94.06, loss: 0.4606"
)
SWIN = (
    "[2026-08-01 12:00:00 swin_tiny] (main.py 235): INFO Train: [0/300][10/1251]\teta 0:25:11"
    " lr 0.000001\t wd 0.0500\ttime 0.5312 (1.0345)\tloss 6.9401 (6.9512)\tgrad_norm 1.4 (1.5)\t"
)
KERAS = (
    "\x08\x08\x1b[1m38/40\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m━\x1b[0m"
    " \x1b[1m0s\x1b[0m 76ms/step - loss: 1.3140"
)
NEMO_BAR = (
    "Epoch 0:  22%|██▏       | 4499/20101 [22:26:14<77:48:37, 17.95s/it, v_num=5563,"
    " reduced_train_loss=2.470, global_step=4512.0, consumed_samples=1.16e+6]"
)
SWIFT = (
    "{'loss': '1.2034', 'grad_norm': '0.9', 'learning_rate': '1.1e-05', 'epoch': '0.01',"
    " 'global_step/max_steps': '5/873', 'percentage': '0.57%', 'elapsed_time': '21s',"
    " 'memory(GiB)': 14.2, 'train_speed(iter/s)': 0.24}"
)
LINES: dict[str, tuple[str, int, float]] = {
    "Megatron-LM": (MEGATRON, 120, 8.93452),
    "GPT-NeoX": (NEOX, 34, 11.18665),
    "ms-swift": (SWIFT, 5, 1.2034),
    "NeMo 2": (NEMO, 120, 1.233),
    "NeMo 1": (NEMO_BAR, 4499, 2.47),
    "torchtitan": (TITAN, 30, 7.2154),
    "picotron": (
        "[rank 0] Step: 7     | Loss: 5.5312 | Global batch size: 32.0K | Tokens/s: 9.1K",
        7, 5.5312,
    ),
    "DeepSpeed": (
        (
            "[2026-08-01 12:00:00,985] [INFO] [logging.py:69:log_dist] [Rank 0] step=40, skipped=2,"
            " lr=[5e-05], mom=[[0.9, 0.999]]"
        ),
        40, math.nan,
    ),
    "DeepSpeed timer": (
        (
            "[INFO] [timer.py:215:stop] epoch=0/micro_step=68/global_step=34,"
            " RunningAvgSamplesPerSec=7.8, CurrSamplesPerSec=8.0, MemAllocated=59.65GB"
        ),
        34, math.nan,
    ),
    "DeepSpeed timer, old": ("[timer.py:189:stop] 0/41, SamplesPerSec=83.4, MemAllocated=0.2GB",
                             41, math.nan),
    "MaxText": (
        (
            "completed step: 12, seconds: 3.212, TFLOP/s/device: 300.123, Tokens/s/device: 1234.5,"
            " total_weights: 65536, loss: 8.123"
        ),
        12, 8.123,
    ),
    "levanter": (
        (
            "2026-08-01T12:00:00 - 0 - tqdm_loggable.tqdm_logging - INFO - Progress on:train"
            " 230it/1.00kit rate:1.9it/s remaining:06:40 elapsed:02:00 postfix:loss=3.21"
        ),
        230, 3.21,
    ),
    "levanter, thousands": (
        "Progress on:train 1.23kit/10.0kit rate:1.9it/s remaining:06:40 postfix:loss=3.05",
        1230, 3.05,
    ),
    "mmengine": (MMENGINE, 50, 2.2507),
    "mmengine by iteration": (
        "mmengine - INFO - Iter(train) [  150/80000]  base_lr: 1.0e-02  eta: 1:00:00  loss: 1.9",
        150, 1.9,
    ),
    "mmdet 2": (MMCV, 1200, 0.4606),
    "Swin": (SWIN, 10, 6.9401),
    "timm": ("Train: 0 [  50/1251 (  4%)]  Loss: 6.94 (6.95)  Time: 0.531s, 1928.9/s", 50, 6.94),
    "torchvision": (
        "Epoch: [0]  [  20/1251]  eta: 0:10:11  lr: 0.1  loss: 6.91 (6.93)  time: 0.4901",
        20, 6.91,
    ),
    "torchvision's ImageNet": (
        "Epoch: [0][  11/5005]\tTime  0.5 ( 1.0)\tData  0.0 ( 0.3)\tLoss 6.97e+00 (7.02e+00)",
        11, 6.97,
    ),
    "TF slim": ("INFO:tensorflow:global step 5: loss = 62.5264 (20.205 sec/step)", 5, 62.5264),
    "TF estimator": ("INFO:tensorflow:loss = 0.53, step = 101 (0.412 sec)", 101, 0.53),
    "fairseq": (
        (
            "2026-08-01 12:00:00 | INFO | train_inner | epoch 001:    107 / 1000 loss=15.1,"
            " nll_loss=14.9, wps=35000, num_updates=100, lr=1.25e-05"
        ),
        100, 15.1,
    ),
    "Composer": ("[batch=10/4800]:", 10, math.nan),
    "Keras 3": (KERAS, 38, 1.314),
    "Keras 2": ("12/40 [=======>....................] - ETA: 1s - loss: 0.2511", 12, 0.2511),
    "rich": ("Epoch 0/9 ━━━━━╸━━━━━━ 13/100 0:00:10 • 0:01:00 12.30it/s train_loss: 0.25",
             13, 0.25),
    "tqdm": ("Epoch 1:  95%|█████████▌| 38/40 [00:02<00:00, 19.51it/s, loss=0.5]", 38, 0.5),
    "Lightning 2": (
        "Epoch 1:  95%|█████████▌| 39/40 [00:02<00:00, 19.51it/s, v_num=1, train_loss_step=0.4]",
        39, 0.4,
    ),
    "Trainer": (" 30%|███       | 30/100 [00:12<00:28,  2.46it/s]", 30, math.nan),
    "nanoGPT": ("iter 10: loss 3.2012, time 100.02ms, mfu 12.20%", 10, 3.2012),
    "detectron2": (
        "[08/01 12:00:01 d2.utils.events]:  eta: 1:02:03  iter: 19  total_loss: 5.31  loss_cls: 4",
        19, 5.31,
    ),
    "JSON": ('{"mode": "train", "epoch": 1, "iter": 50, "lr": 0.001, "loss": 2.25}', 50, 2.25),
    "MindSpore": ("epoch: 1 step: 110, loss is 2.3025", 110, 2.3025),
    "Paxml": ("[PAX STATUS] step_i: 120, training loss: 9.75", 120, 9.75),
    "LLaMA-Factory": ('{"current_steps": 130, "total_steps": 900, "loss": 1.5, "lr": 5e-05}', 130,
                      1.5),
    "by hand, batches": ("Epoch 1, Batch 140/500, Loss: 0.25", 140, 0.25),
    "by hand": ("Epoch [2/5], Step [100/600], Loss: 0.1234", 100, 0.1234),
    "by hand, bare": ("step 12 loss nan", 12, math.nan),
}  # fmt: skip
"""Program -> a line of it, the step and the loss (NaN: it tells none, or that)."""


def said(line: str) -> Said | None:
    """By the first form that fits."""
    return next((found for form in known_forms() if (found := form.find(line))), None)


def samples() -> list[str]:
    """The lines above, and the logs of real machines where they are."""
    real = sorted((SHARED / "data/wild/training_logs").glob("*.log"))
    return [*(f"{line}\n" for line, _, _ in LINES.values()), *map(Path.read_text, real)]


def values(text: str) -> dict[Any, object]:
    """Steps and losses by form, of whole lines: as the follower of a log reads them."""
    found: dict[tuple[object, ...], object] = {}
    *whole, _ = text.replace("\r", "\n").split("\n")
    for line in whole:
        for form in known_forms():
            told = form.find(line)
            if told is not None:
                found[told.form, told.step] = told.step
            if told is not None and told.tells_loss:
                found[told.form, told.step, "loss"] = repr(told.loss)
    return found


def told(text: str) -> dict[object, object]:
    """Steps and losses of whole lines by whatever form: what may be counted of them."""
    return {key[1:] if len(key) > 2 else key[1]: value for key, value in values(text).items()}


MOST_MOVES = 6


def logs() -> list[str]:
    """Each line above as a loop writes it, and the logs of real machines where they are."""
    real = sorted((SHARED / "data/wild/training_logs").glob("*.log"))
    return [*(_loop(line, step) for line, step, _ in LINES.values()), *map(Path.read_text, real)]


def _loop(line: str, step: int) -> str:
    """A line whose step rises by one, with what else programs write between."""
    form = next(form for form in known_forms() if form.find(line) is not None)
    match = form.expression.search(cleaned(line))
    assert match is not None
    text, (start, end) = cleaned(line), match.span("step")
    steps = (step + move for move in range(MOST_MOVES))
    return "".join(
        f"{text[:start]}{number}{text[end:]}\nsaving 7 of 8 shards at 12:00:0{number % 10}\n"
        for number in steps
    )


def counted(text: str) -> dict[object, object]:
    """The steps that are counted of a whole log, and the losses on their own lines.

    Not those that stand alone: of them only the order of lines tells the step.
    """
    choice = Choice()
    *whole, _ = text.replace("\r", "\n").split("\n")
    found: dict[object, object] = {}
    for when, line in enumerate(whole):
        for heard in choice.find(line, when):
            found[heard.said.step] = heard.said.step
            if heard.said.tells_loss:
                found[heard.said.step, "loss"] = repr(heard.said.loss)
    return found

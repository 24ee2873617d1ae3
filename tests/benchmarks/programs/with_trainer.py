"""Hugging Face's Trainer."""

from tempfile import TemporaryDirectory
from typing import Any

import torch
from late import BATCH, WIDTH, a_model, plan
from transformers import Trainer, TrainerCallback, TrainingArguments

how = plan()


class Recording(TrainerCallback):
    def on_train_begin(self, *told: Any, **named: Any) -> None:
        self.recorder = how.recorder()

    def on_step_end(self, *told: Any, **named: Any) -> None:
        self.recorder.step_ended()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.step = a_model(normed=True), 0

    def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        how.work(self.step)
        self.step += 1
        return {"loss": self.body(batch).square().mean()}


torch.set_num_threads(1)
data = [{"batch": torch.randn(WIDTH)} for _ in range(BATCH * how.steps)]
with TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, max_steps=how.steps, per_device_train_batch_size=BATCH,
        save_strategy="no", report_to=[], logging_steps=10, disable_tqdm=True,
        remove_unused_columns=False,
    )  # fmt: skip
    trainer = Trainer(Model(), arguments, train_dataset=data)
    if how.recorded:
        trainer.add_callback(Recording())
    trainer.train()

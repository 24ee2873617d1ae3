"""The same in frameworks, as their users write it; imported only where they are installed."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.utils.data import DataLoader, TensorDataset

from tests.workloads.sdk.waits.programs import STEPS, WIDTH, Late, a_model

BATCH = 4


def loader(ranks: int) -> DataLoader[Any]:
    data = torch.randn(BATCH * STEPS * ranks, WIDTH, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(data), batch_size=BATCH)


def accelerate_(late: Late) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = a_model(normed=True)
    optimizer = SGD(model.parameters(), lr=0.05)
    model, optimizer, batches = accelerator.prepare(
        model, optimizer, loader(accelerator.num_processes)
    )
    for (batch,) in batches:
        late()
        accelerator.backward(model(batch).square().mean())
        optimizer.step()
        optimizer.zero_grad()


def lightning_(late: Late) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = a_model(normed=True)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            late()
            return self.model(batch[0]).square().mean()

        def configure_optimizers(self) -> Optimizer:
            return SGD(self.parameters(), lr=0.05)

    import os

    ranks = int(os.environ["WORLD_SIZE"])
    trainer = lightning.Trainer(
        accelerator="cpu", devices=ranks, strategy="ddp", max_steps=STEPS, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), loader(ranks))


def trainer_(late: Late) -> None:
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = a_model(normed=True)

        def forward(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            late()
            return {"loss": self.body(batch).square().mean()}

    data = [{"batch": torch.randn(WIDTH)} for _ in range(BATCH * STEPS * 2)]
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, use_cpu=True, max_steps=STEPS, per_device_train_batch_size=BATCH,
            save_strategy="no", report_to=[], logging_steps=1, disable_tqdm=True,
            remove_unused_columns=False,
        )  # fmt: skip
        Trainer(Model(), arguments, train_dataset=data).train()
    assert not Path(folder).exists()

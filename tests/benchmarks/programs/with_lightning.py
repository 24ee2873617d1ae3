"""Lightning's Trainer with its own DDP strategy."""

import os
from typing import Any

import lightning
import torch
from late import a_loader, a_model, plan

how = plan()


class Recording(lightning.Callback):
    def on_fit_start(self, trainer: Any, module: Any) -> None:
        self.recorder = how.recorder(rank=trainer.global_rank, world=trainer.world_size)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *rest: Any) -> None:
        self.recorder.step_ended(loss=outputs["loss"])


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = a_model(normed=True)

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        how.work(index)
        return self.model(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


torch.set_num_threads(1)
trainer = lightning.Trainer(
    accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), max_steps=how.steps, logger=False,
    callbacks=[Recording()] if how.recorded else [], enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Module(), a_loader(how.world, how.steps))

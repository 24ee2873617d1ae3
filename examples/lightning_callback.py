"""Lightning: a callback of a few lines tells Lockstep of every batch.

Needs `pip install lightning`. Alone:  python examples/lightning_callback.py
Under Lockstep:  lockstep run --exec --nodes 2 -- python examples/lightning_callback.py

The data are random.
"""

import argparse
import os
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lockstep


class Lockstep(lightning.Callback):
    """Records each training batch as a step."""

    def on_fit_start(self, trainer: Any, module: Any) -> None:
        """Start here: the ranks exist by now."""
        self.recorder = lockstep.recorder(rank=trainer.global_rank, world=trainer.world_size)

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        """Backward is over."""
        self.optimizing = self.recorder.phase("optimizer")
        self.optimizing.__enter__()

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *rest: Any) -> None:
        """One step is over."""
        self.optimizing.__exit__(None, None, None)
        self.recorder.step_ended(loss=outputs["loss"], samples=len(rest[0][0]))


class Model(lightning.LightningModule):
    """A small regression."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        """Mean squared error."""
        inputs, targets = batch
        return nn.functional.mse_loss(self.layers(inputs), targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main() -> None:
    """Train on this rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    inputs = torch.randn(2048, 16)
    data = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")), max_steps=arguments.steps,
        callbacks=[Lockstep()], logger=False, enable_checkpointing=False,
        enable_model_summary=False, enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Model(), data)
    print(f"trained {trainer.global_step} steps")


if __name__ == "__main__":
    main()

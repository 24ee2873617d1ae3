"""Hugging Face Accelerate, as its quick tour has it."""

import torch
from accelerate import Accelerator
from late import a_loader, a_model, plan

how = plan()
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True)
model = a_model(normed=True)
recorder = how.recorder()
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.05), a_loader(how.world, how.steps)
)
for step, (batch,) in enumerate(recorder.steps(loader)):
    how.work(step)
    accelerator.backward(model(batch).square().mean())
    optimizer.step()
    optimizer.zero_grad()
accelerator.end_training()

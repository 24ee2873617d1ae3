"""FSDP2: every layer sharded over all ranks."""

import torch
from late import a_model, fit, joined, plan
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

how = plan()
joined()
model = a_model()
mesh = init_device_mesh("cpu", (how.world,))
for layer in model:
    fully_shard(layer, mesh=mesh)
fit(fully_shard(model, mesh=mesh), how, how.recorder())
torch.distributed.destroy_process_group()

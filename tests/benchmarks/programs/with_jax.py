"""JAX over several processes: the gradients are averaged inside one compiled call, over gloo."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from late import BATCH, WIDTH, plan

how = plan()
port = 1 + int(os.environ["MASTER_PORT"])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", how.world, how.rank)
mesh = jax.make_mesh((how.world,), ("dp",))
rows = jax.NamedSharding(mesh, jax.P("dp"))
same = jax.NamedSharding(mesh, jax.P())


@jax.jit
def trained(weights: jax.Array, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    loss, slope = jax.value_and_grad(lambda w: jnp.mean((inputs @ w) ** 2))(weights)
    return jax.lax.with_sharding_constraint(weights - 0.05 * slope, same), loss


recorder = how.recorder(rank=how.rank, world=how.world)
weights = jax.device_put(jnp.eye(WIDTH), same)
data = np.random.default_rng(how.rank).normal(size=(BATCH, WIDTH)).astype(np.float32)
for step in recorder.steps(range(how.steps)):
    how.work(step)
    inputs = jax.make_array_from_process_local_data(rows, data)
    with recorder.collective("dp"):  # what is computed here is little beside the averaging
        weights, loss = jax.block_until_ready(trained(weights, inputs))
    print(f"step {step} loss {float(loss):.4f}", flush=True)  # noqa: T201

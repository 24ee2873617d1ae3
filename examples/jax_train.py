"""JAX: the same three lines; JAX runs ahead of Python, so a phase ends with its result.

Needs `pip install jax`. Alone:  python examples/jax_train.py
Under Lockstep:  lockstep run --exec --nodes 1 -- python examples/jax_train.py

With several processes call `jax.distributed.initialize()` first and pass
`rank=jax.process_index(), world=jax.process_count()` to `lockstep.recorder`. The data are random.
"""

import argparse

import jax
import jax.numpy as jnp

import lockstep


def loss_of(weights: dict[str, jax.Array], inputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean squared error of a small network."""
    hidden = jnp.tanh(inputs @ weights["first"])
    return jnp.mean((hidden @ weights["second"] - targets) ** 2)


@jax.jit
def gradients_of(
    weights: dict[str, jax.Array], inputs: jax.Array, targets: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The loss and its gradients."""
    return jax.value_and_grad(loss_of)(weights, inputs, targets)


@jax.jit
def updated(weights: dict[str, jax.Array], slopes: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """One step of gradient descent."""
    return jax.tree.map(lambda weight, slope: weight - 0.05 * slope, weights, slopes)


def main() -> None:
    """Train on this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    key = jax.random.key(0)
    weights = {
        "first": 0.1 * jax.random.normal(key, (16, 32)),
        "second": 0.1 * jax.random.normal(key, (32, 1)),
    }
    recorder = lockstep.recorder()
    batches = (jax.random.normal(jax.random.key(step), (64, 16)) for step in range(arguments.steps))
    for inputs in recorder.steps(batches):
        targets = inputs.sum(axis=1, keepdims=True)
        with recorder.phase("backward"):  # JAX makes the forward pass part of it
            loss, slopes = jax.block_until_ready(gradients_of(weights, inputs, targets))
        with recorder.phase("optimizer"):
            weights = jax.block_until_ready(updated(weights, slopes))
        recorder.tell(loss=loss, samples=len(inputs))
    print(f"trained {arguments.steps} steps, loss {float(loss):.4f}")


if __name__ == "__main__":
    main()

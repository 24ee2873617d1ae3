"""TensorFlow: a Keras callback of a few lines tells Lockstep of every batch.

Needs `pip install tensorflow-cpu`. Alone:  python examples/tensorflow_train.py
Under Lockstep:  lockstep run --exec --nodes 1 -- python examples/tensorflow_train.py

The data are random.
"""

import argparse
from typing import Any

import keras
import numpy as np

import lockstep


class Lockstep(keras.callbacks.Callback):
    """Records each training batch as a step."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Start here."""
        self.recorder = lockstep.recorder()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """One step is over; Keras' loss is the mean since the epoch began."""
        self.recorder.step_ended(loss=(logs or {}).get("loss"), samples=32)

    def on_test_begin(self, logs: Any = None) -> None:
        """The step in which validation falls is slow by design."""
        self.validating = self.recorder.phase("eval")
        self.validating.__enter__()

    def on_test_end(self, logs: Any = None) -> None:
        """Training goes on."""
        self.validating.__exit__(None, None, None)


def main() -> None:
    """Train on this process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    inputs = np.random.default_rng(0).standard_normal((32 * arguments.steps, 16)).astype("float32")
    targets = inputs.sum(axis=1, keepdims=True)
    history = model.fit(
        inputs, targets, batch_size=32, epochs=1, verbose=0, callbacks=[Lockstep()],
        validation_data=(inputs[:64], targets[:64]),
    )  # fmt: skip
    print(f"trained {arguments.steps} steps, loss {history.history['loss'][-1]:.4f}")


if __name__ == "__main__":
    main()

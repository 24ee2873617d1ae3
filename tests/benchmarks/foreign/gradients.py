"""Gradients of replicas: all-reduces of buckets, begun as soon as all of a group are ready."""

import numpy as np

from tests.benchmarks.simulated.arrays import Floats


def reduce(ends: Floats, backward: Floats, seconds: Floats, buckets: int) -> tuple[Floats, Floats]:
    """Waiting for gradients after backward, and seconds in their collectives.

    Args:
        ends: (stages, 1, replicas) moments in which backward is done.
        backward: (stages, 1, replicas) seconds of the last microbatch, in which buckets are made.
        seconds: (stages, width, 1) of the transfer of all gradients of a group.
        buckets: Into which they are cut; 1 is no overlap with backward.

    Returns:
        Seconds after `ends` until all gradients are there, and seconds in collectives, each
        (stages, width, replicas).
    """
    stages, width, _ = seconds.shape
    done = np.zeros((stages, width, 1))
    inside = np.zeros((stages, width, ends.shape[2]))
    for bucket in range(buckets):
        ready = ends - backward * (1 - (bucket + 1) / buckets)
        done = np.maximum(ready.max(2, keepdims=True), done) + seconds / buckets
        inside += done - ready
    return np.maximum(0, done - ends), inside

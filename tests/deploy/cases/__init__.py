"""The tests of every alert, as data."""

from tests.deploy.cases import gpu, links, monitor, training

CASES = (*gpu.CASES, *links.CASES, *training.CASES, *monitor.CASES)

"""The tests of every alert, as data."""

from tests.deploy.cases import gpu, kernel, links, monitor, training

CASES = (*gpu.CASES, *kernel.CASES, *links.CASES, *training.CASES, *monitor.CASES)

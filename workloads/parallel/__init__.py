"""How a model is spread over ranks: tensor, pipeline and data parallel, one file each."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Segment = Callable[[str, str], AbstractContextManager[Any]]
"""A `with` block around the computation of (`forward` or `backward`, tag of the micro-batch)."""

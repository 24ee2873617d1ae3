"""Synthetic runs that tests of the analyzer have, too."""

from tests.analyzer.conftest import fault, synthetic

__all__ = ["fault", "synthetic"]

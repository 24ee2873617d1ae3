"""A few hundred mutations of each capture; 100,000 by `tests.benchmarks.mutated_captures`."""

import pytest

from tests.benchmarks.mutated_captures import PARSERS, wrong


@pytest.mark.parametrize("parser", ["dcgm_exporter", "ethtool", "infiniband"])
def test_what_comes_out_of_a_mutated_capture_was_in_it(parser):
    assert [] == wrong(PARSERS[parser], 300)

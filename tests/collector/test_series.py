"""One text for one series, whoever writes it; a label that does not exist is an error at once."""

import pytest

from lockstep.collector.contract import metrics as m
from lockstep.collector.contract.metrics import label_text


def test_the_order_of_labels_makes_no_other_series() -> None:
    first = m.GPU_ECC_ERRORS.series(type="uncorrected", counter="volatile")

    assert first == m.GPU_ECC_ERRORS.series(counter="volatile", type="uncorrected")
    assert 'lockstep_gpu_ecc_errors_total{counter="volatile",type="uncorrected"}' == first


def test_a_series_without_labels_of_its_own_is_its_metric() -> None:
    assert m.GPU_POWER.name == m.GPU_POWER.series()


@pytest.mark.parametrize("labels", [{}, {"domian": "sm"}, {"domain": "sm", "gpu": "0"}])
def test_a_label_too_few_or_of_another_name_is_an_error(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"lockstep_gpu_clock_hertz takes labels \['domain'\]"):
        m.GPU_CLOCK.series(**labels)


def test_a_part_of_the_labels_selects_and_none_else_exists() -> None:
    assert ('direction="transmit"',) == m.NET_BYTES.selector(direction="transmit")
    with pytest.raises(ValueError, match="has no label directoin"):
        m.NET_BYTES.selector(directoin="transmit")


def test_the_place_of_a_series_is_not_in_its_text() -> None:
    assert 'domain="sm"' == label_text({"uuid": "GPU-0", "gpu": "0", "domain": "sm"})


@pytest.mark.parametrize(
    "text",
    ['type="corrected",counter="volatile"', 'kind="corrected"', "corrected", 'type="a'],
)
def test_a_text_with_other_labels_or_in_another_order_is_no_series(text: str) -> None:
    m.GPU_ECC_ERRORS.check_labels('counter="volatile",type="corrected"')
    m.GPU_ECC_ERRORS.check_labels('type="corrected"')
    m.GPU_ECC_ERRORS.check_labels("")
    with pytest.raises(ValueError, match="lockstep_gpu_ecc_errors_total has no series with"):
        m.GPU_ECC_ERRORS.check_labels(text)

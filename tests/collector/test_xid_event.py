"""One spelling of a GPU's place, whoever tells it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.readings.kernel import pci_bus_id


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ("00000000:65:00.0", "0000:65:00.0"),
        ("0000:65:00.0", "0000:65:00.0"),
        ("PCI:0000:65:00", "0000:65:00.0"),
        ("0008:01:00", "0008:01:00.0"),
        ("65:00.0", "0000:65:00.0"),
        ("00000000:AF:1F.0", "0000:af:1f.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_every_spelling_becomes_that_of_sysfs(told, place):
    assert pci_bus_id(told) == place


@pytest.mark.parametrize("told", ["", "GPU-0", "0000:65", "zz:00.0", "0000:65:00.0.0", "1:2:3:4"])
def test_what_names_no_place_is_none(told):
    assert pci_bus_id(told) is None


@settings(max_examples=200)
@given(st.text(max_size=40))
def test_any_text_is_a_place_spelt_stably_or_none(text):
    place = pci_bus_id(text)

    assert place is None or pci_bus_id(place) == place

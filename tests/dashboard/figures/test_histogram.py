"""The spread of a fleet."""

import numpy as np
import plotly.graph_objects as go

from lockstep.dashboard.figures import deviation
from tests.dashboard.figures.fleets import fleet


def test_every_place_that_told_something_is_in_a_bar() -> None:
    values = np.r_[np.linspace(0.98, 1.02, 14), 1.4, np.nan]
    picture = deviation.histogram(fleet(2, values=values.tolist()))
    alike, apart = (int(trace["y"].sum()) for trace in picture.figure["data"])
    assert (14, 1) == (alike, apart)
    go.Figure(picture.figure)


def test_places_that_are_all_alike_have_one_bar() -> None:
    picture = deviation.histogram(fleet(2))
    assert 1 == np.count_nonzero(picture.figure["data"][0]["y"])


def test_nobody_told_anything() -> None:
    assert "No GPU told anything at this time." == deviation.histogram(fleet(0)).text

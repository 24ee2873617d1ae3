"""How columns of times and ratios are shown: four digits, whatever the download has."""

from typing import Any

import pandas as pd
import streamlit as st

from lockstep.dashboard.words.columns import measured


def formats(frame: pd.DataFrame) -> dict[str, Any]:
    """Streamlit's column configuration of a frame with words for columns."""
    return {name: st.column_config.NumberColumn(format="%.4g") for name in measured(frame)}

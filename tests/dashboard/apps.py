"""The whole app without a browser: a page at an address, over any source."""

from pathlib import Path

import pytest
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import lockstep.dashboard
from lockstep.dashboard.protocol import Source
from lockstep.dashboard.sources import opened

APP = Path(lockstep.dashboard.__file__).parent / "serve" / "app.py"
SECONDS = 30.0
"""For one look at a page: Streamlit's own 3 s are too few for a busy machine."""


def look(patch: pytest.MonkeyPatch, given: Source, page: str = "", **words: str) -> AppTest:
    """A page as a reader sees it who opens its address."""
    patch.setattr(opened, "opened", lambda *_: given)
    app = AppTest.from_file(APP, default_timeout=SECONDS)
    # Else it looks for components in every package that is installed: 0.3 s a test.
    app._bidi_component_manager = BidiComponentManager()
    app.query_params.update(words)
    if page:
        # switch_page takes files only; a page's hash is that of its path (StreamlitPage).
        app._page_hash = calc_hash(page)
    return app.run()


def boxes(app: AppTest) -> list[str]:
    """Every box of a page: its sentence, banners and troubles, as it is shown."""
    found = (*app.error, *app.warning, *app.info, *app.success)
    return [box.value.replace("\\", "") for box in found]


def everything(app: AppTest) -> str:
    """All that stands on a page, its sidebar and its tables, in one text."""
    return "\n".join(
        str(getattr(element, "value", "")) + str(getattr(element, "label", ""))
        for element in (*app.main, *app.sidebar)
    )

"""What the boxes of a page say, as people read it."""

from streamlit.testing.v1 import AppTest


def sentences(app: AppTest) -> list[str]:
    """Every box: its sentence, banners and troubles; raw Markdown."""
    return [box.value for box in (*app.error, *app.warning, *app.info, *app.success)]


def said(app: AppTest) -> str:
    """All of them without Markdown's backslashes."""
    return " ".join(sentences(app)).replace("\\", "")

"""Shapes -> pictures: pure functions, no Streamlit, no source."""

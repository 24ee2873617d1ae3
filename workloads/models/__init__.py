"""The models of the reference runs."""

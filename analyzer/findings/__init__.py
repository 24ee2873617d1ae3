"""Findings of `lockstep watch`: their life cycle, their alerts and their wording."""

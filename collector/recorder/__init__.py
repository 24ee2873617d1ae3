"""Scrapes the pages of all nodes into run archives, and the GPUs of a machine into captures."""

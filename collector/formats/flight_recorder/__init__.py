"""Dumps of PyTorch's flight recorder: pickles and JSON, of one rank or of many."""

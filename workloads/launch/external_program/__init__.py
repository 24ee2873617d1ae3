"""Somebody else's training program, unchanged: started, followed by its log, and ended."""

"""What is written to a terminal, and how Ctrl-C ends it."""

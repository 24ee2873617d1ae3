"""What is timed in programs that use torch, from outside the program."""

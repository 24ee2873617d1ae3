"""An exception in whatever of ours runs in a program, found by running it and looking."""

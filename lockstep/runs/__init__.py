"""What starts, watches and keeps a run."""

"""What a run means: Run -> Grid -> Finding -> Evidence -> Verdict."""

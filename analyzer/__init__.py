"""What a run means: from a Run to a Verdict."""

"""Steps of programs that know nothing of Lockstep: from torch's optimizer, or from their log."""

"""Who is slow: the model of own time, its detectors, and how certain a place is."""

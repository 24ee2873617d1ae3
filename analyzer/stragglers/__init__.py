"""Who is slow: the model of own time, its detectors, and the place that an effect has."""

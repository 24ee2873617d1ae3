"""Who and where a rank is, and how ranks that others start come together."""

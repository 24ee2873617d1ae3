"""Files that others wrote: opened safely, kept open, found part by part."""

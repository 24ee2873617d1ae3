"""What others write, one parser a format, for collector and analyzer; standard library only."""

"""Operations of a run as a Trace: a foreign Parquet file, or our own archive."""

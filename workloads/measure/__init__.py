"""What a rank measures: clocks, streams, round trips, FLOPs, links; dumps in others' formats."""

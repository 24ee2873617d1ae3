"""`lockstep bench`: from one file to a table of results, and what a later run is judged against.

spec.py the file -> plan.py cells and their steps, as data -> runner.py runs them, state.py
remembers; measure.py an archive -> a row; results/ the table; baseline.py and judging.py what a
later row is held against.
"""

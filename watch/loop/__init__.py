"""The loop of `lockstep watch`: asks Prometheus, fetches operations, writes archives, serves pages.

What it concludes is in `lockstep.watch.judge`.
"""

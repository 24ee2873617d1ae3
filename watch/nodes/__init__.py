"""The loop of `lockstep nodes`: reads the page of watch, writes conditions and events.

What it decides is in `lockstep.watch.node_conditions`.
"""

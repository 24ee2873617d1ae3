"""Every command: one file each.

A command module imports its heavy libraries inside its function: `lockstep --help` imports all
of these files. `lockstep.app` has their order.
"""

"""NCCL's RAS subsystem, over its socket."""

"""`lockstep bench`: its commands."""

"""Which pod and which rank has which GPU."""

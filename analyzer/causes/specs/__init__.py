"""The causes, one file a cause: its `SPEC`; causes.registry lists them."""

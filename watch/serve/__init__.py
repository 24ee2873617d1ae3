"""The HTTP server of `lockstep watch`: metrics, runbooks and reports."""

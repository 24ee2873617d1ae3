"""An emulated network: each node of a local run in a network namespace, with links to disturb."""

"""Findings -> named culprits: a rank, a node, a link, a leaf or rack, or all alike."""

"""Which link or node is slow: pairs of nodes, then matrix products of every rank."""

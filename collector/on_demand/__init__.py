"""What is asked of the ranks of this node: dumps, stacks, and what the node knows of them."""

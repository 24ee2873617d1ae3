"""What the ranks of this node write into their rings."""

"""Dumps of the flight recorder that the ranks of this node wrote."""

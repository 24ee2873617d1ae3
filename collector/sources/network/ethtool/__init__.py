"""Counters of Ethernet drivers, over the ethtool ioctl."""

"""InfiniBand and RoCE ports, from sysfs."""

"""Network interfaces, from /proc/net/dev and sysfs."""

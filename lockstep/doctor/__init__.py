"""What this machine and this cluster have, and what is sent of it."""

"""What a finding shows: by the GPU, the host, the network, the software; table.py lists all."""

"""NVIDIA's catalogue of XIDs as rows, how bad each is by whom, and what a message itself says."""

"""Interfaces, InfiniBand ports and the kernel's network stack."""

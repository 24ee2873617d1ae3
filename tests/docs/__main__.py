"""Writes docs/reference from the contract, the settings and the commands."""

from tests.docs.reference import main

main()

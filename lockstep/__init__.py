"""The roof: the command line and the wiring of the parts."""

"""The command line: its app, groups of options, and what is said of wrong words."""

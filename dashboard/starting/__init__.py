"""Starting a run from a page: the process, its progress, its end."""

"""What pages are built of: the only files beside the pages that draw."""

"""The page of metrics and the other answers, over HTTP."""

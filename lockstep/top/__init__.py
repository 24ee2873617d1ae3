"""`lockstep top`: one screen of nodes, ranks and GPUs with who is late, in a terminal."""

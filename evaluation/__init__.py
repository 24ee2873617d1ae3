"""How good verdicts are: generators, scores, published rules, and the fit of weights."""

"""One model of own time: peer groups, scopes and the shapes that an effect can have.

    log own time of rank r in window w = m[w, g(r)] + a[r] + sum of effects + noise

(docs/method/peers.md); `model.effects` searches the best set of effects.
"""

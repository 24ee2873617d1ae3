"""Hardware that deviates from its peers, whether or not it costs time yet, also without a run.

Sparse and quiet: what deviates has to be several times further from its peers than healthy parts
are from each other, and for several scrapes. Only errors that no healthy part has are always
reported.
"""

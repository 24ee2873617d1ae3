"""The words of a report and what they mean."""

GLOSSARY: dict[str, str] = {
    "rank": "One process of the run, numbered over all nodes.",
    "step": "One optimizer step; all ranks take it together.",
    "own time": "The part of a step that a rank spends outside collectives.",
    "collective": "A communication in which ranks wait for each other, such as an all-reduce.",
    "waiting": "Time from arriving at a collective to its completion; the late rank waits least.",
    "peers": "The ranks that do the same work as the one in question.",
    "slowdown": "For a rank: its own time over its expected own time. For the run: its step time"
    " over the step time without the culprits.",
    "onset": "The first step at which the trouble shows.",
    "tier": "page: certain and costly enough to wake someone; record: worth a note.",
    "confidence": "Probability, given the telemetry that answered: in the place, that it is this"
    " rank, node or link; in the cause, that it is why, if that is the place.",
    "coverage": "Share of the expected windows and ranks that answered.",
    "entropy rate": "The lowest loss that any honest model can reach on this data.",
}

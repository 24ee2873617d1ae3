"""Every page, in the order of the navigation, and where pages of before are now."""

from collections.abc import Mapping

from lockstep.dashboard.context import Page
from lockstep.dashboard.pages import (
    cluster,
    collectives,
    health,
    node,
    now,
    run,
    runs,
    start,
    straggler,
)

PAGES: tuple[Page, ...] = (
    Page("now", "Now", ":material/monitor_heart:",
         "Is anything holding training back? Which node, why?", "Watch",
         "know whether anything holds training back now", now.show),
    Page("cluster", "Cluster", ":material/grid_on:", "Where is it slow, hot, idle, broken?",
         "Watch", "see where in the cluster it is slow, hot, idle or broken", cluster.show),
    Page("run", "Run", ":material/show_chart:",
         "Does it converge, how fast, what does the hardware cost it, and what happened?",
         "Look closer", "see whether a run converges, or hand on its post-mortem", run.show,
         "run"),
    Page("straggler", "Straggler", ":material/person_search:",
         "Who is late, in which phase, caused by what?", "Look closer",
         "know which rank is late, in which phase, and why", straggler.show, "run"),
    Page("collectives", "Collectives", ":material/hub:", "Is communication the limit?",
         "Look closer", "know whether communication is the limit", collectives.show, "run"),
    Page("node", "Node and GPU", ":material/dns:",
         "What is wrong with this node, and what did its GPUs do?", "Look closer",
         "know what is wrong with a node or GPU, and how to take the node out", node.show),
    Page("runs", "Runs", ":material/list_alt:",
         "What ran, how did it end, what changed, and where did the time go?", "Runs",
         "find a run, compare up to eight, or see where the time went", runs.show),
    Page("start", "Start a run", ":material/play_circle:", "How do I make a run?", "Runs",
         "start a run, with a fault if you like", start.show, alone=("",)),
    Page("health", "Data health and help", ":material/vital_signs:",
         "Can I trust these numbers, and what do they mean?", "Help",
         "know whether numbers can be trusted, and what they mean", health.show, alone=("help",)),
)  # fmt: skip

MOVED: Mapping[str, tuple[str, str]] = {
    "gpu": ("node", ""),
    "compare": ("runs", "compare"),
    "ledger": ("runs", "ledger"),
    "reports": ("run", "report"),
    "help": ("health", "help"),
}
"""Key of a page of before -> key of the page that answers its question, and its view there.

Addresses of before stand in alerts, tickets and bookmarks: app.py leads them on.
"""

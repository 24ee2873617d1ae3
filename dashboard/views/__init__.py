"""Every page, in the order of the navigation: one file a page, one line here."""

from dashboard.page import Page
from dashboard.views import (
    cluster,
    collectives,
    compare,
    gpu,
    health,
    help,  # noqa: A004 - the page of that name
    node,
    now,
    reports,
    run,
    runs,
    start,
    straggler,
)

PAGES: tuple[Page, ...] = (
    Page("now", "Now", ":material/monitor_heart:",
         "Is anything holding training back? Which node, why?", "Watch", now.show),
    Page("cluster", "Cluster", ":material/grid_on:", "Where is it slow, hot, idle, broken?",
         "Watch", cluster.show),
    Page("run", "Run", ":material/show_chart:",
         "Does it converge, how fast, and what does the hardware cost it?",
         "Look closer", run.show, "run"),
    Page("node", "Node", ":material/dns:", "What is wrong with this node?",
         "Look closer", node.show, "node"),
    Page("gpu", "GPU and rank", ":material/memory:", "What did this GPU do around that time?",
         "Look closer", gpu.show),
    Page("straggler", "Straggler", ":material/person_search:",
         "Who is late, in which phase, caused by what?", "Look closer", straggler.show, "run"),
    Page("collectives", "Collectives", ":material/hub:", "Is communication the limit?",
         "Look closer", collectives.show, "run"),
    Page("runs", "Runs", ":material/list_alt:", "What ran, and how did it end?",
         "Runs", runs.show),
    Page("compare", "Compare", ":material/compare_arrows:", "What changed between two runs?",
         "Runs", compare.show),
    Page("reports", "Reports", ":material/description:",
         "What happened, for people who were not there?", "Runs", reports.show, needs="run"),
    Page("start", "Start a run", ":material/play_circle:", "How do I make a run?",
         "Runs", start.show, alone=True),
    Page("health", "Data health", ":material/vital_signs:", "Can I trust these numbers?",
         "Help", health.show),
    Page("help", "Help", ":material/help:", "What does it mean, and where do I find it?",
         "Help", help.show, alone=True),
)  # fmt: skip

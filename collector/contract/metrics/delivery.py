"""What the analyzer's page says about alerts on their way out and webhooks on their way in."""

from lockstep.collector.contract.metrics.shape import Kind, Metric

_C, _G = Kind.COUNTER, Kind.GAUGE

ALERTS_DELIVERED = Metric(
    "lockstep_analyzer_alerts_delivered_total", _C, ("alertmanager",),
    "Alerts of findings that an Alertmanager took, those sent again and resolved ones included.",
)  # fmt: skip
ALERT_POSTS_FAILED = Metric(
    "lockstep_analyzer_alert_posts_failed_total", _C, ("alertmanager", "reason"),
    "Requests that an Alertmanager did not take and that are tried again: unreachable, timeout, or"
    " status (it answered, with another status than 200).",
)  # fmt: skip
ALERTS_REJECTED = Metric(
    "lockstep_analyzer_alerts_rejected_total", _C, ("alertmanager",),
    "Alerts that an Alertmanager called wrong (status 400 or 422); the log has its reason.",
)  # fmt: skip
ALERTS_DROPPED = Metric(
    "lockstep_analyzer_alerts_dropped_total", _C, ("alertmanager",),
    "Alerts that an Alertmanager was never told of: too many at once, or not taken within a day.",
)  # fmt: skip
ALERTS_UNDELIVERED = Metric(
    "lockstep_analyzer_alerts_undelivered", _G, ("alertmanager",),
    "Open findings whose alert an Alertmanager has not taken in the last 120 s.",
)  # fmt: skip
WEBHOOKS = Metric(
    "lockstep_analyzer_webhooks_total", _C, ("result",),
    "Notifications of an Alertmanager by what became of them: accepted, malformed, too_large,"
    " unauthorized, foreign (from a page of another site, or no JSON) or busy (the Alertmanager was"
    " asked to try again).",
)  # fmt: skip
WEBHOOK_ALERTS_TRUNCATED = Metric(
    "lockstep_analyzer_webhook_alerts_truncated_total", _C, (),
    "Alerts that an Alertmanager left out of its notifications (max_alerts).",
)  # fmt: skip
POST_MORTEMS = Metric(
    "lockstep_analyzer_post_mortems_total", _C, ("result",),
    "Alerts by what became of their post-mortem: written, failed (the log says why) or unmatched"
    " (they are about no run that is known).",
)  # fmt: skip
POST_MORTEMS_WAITING = Metric(
    "lockstep_analyzer_post_mortems_waiting",
    _G,
    (),
    "Alerts that are yet to be matched with an archive, and reports that are yet to be written.",
)
POST_MORTEM_DURATION = Metric(
    "lockstep_analyzer_post_mortem_duration_seconds", _G, (),
    "Duration of writing the last post-mortem's report.",
)  # fmt: skip

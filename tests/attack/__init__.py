"""Attacks, with bounded counts: what once broke, and what held and must keep holding.

`pytest tests/attack` runs all of it; LOCKSTEP_ATTACK=6 makes six times as much of what is drawn at
random: damaged archives, kills, webhooks, simultaneous starts (`bounds`).

What is read:
- damaged archives: no innocent is named, nobody in a healthy one, no bug (`test_fuzzed_archives`)
- JSON that is nested a hundred thousand deep (`test_deep_json`)
- names that steer a terminal (`test_escapes`)
- names that are scripts, in a real browser, on every page and in the report; frames of others;
  ways out of a folder (`test_dashboard`)
- two writers of one folder (`test_claims`)

The collector:
- connections that say nothing, or say it slowly, before any login (`test_collector_connections`)
- many scrapes at once while it is under attack (`test_collector_scrapes`)
- a driver that hangs or crashes (`test_collector_driver`)
- rings of other tenants: decoys, corrupted ones, claims on ranks of others (`test_collector_rings`)

Watch:
- the same connections (`test_watch_connections`)
- answers of Prometheus that do not end, drip, or are packed (`test_watch_answers`)
- webhooks that no Alertmanager sends, and pages of the web that send them (`test_watch_webhook`)
- `kill -9` while findings open and close (`test_watch_kills`)

Beside the tests: `archives` makes and damages archives; `collector_program` and `watch_program` are
the real programs as processes of their own.
"""

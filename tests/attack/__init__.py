"""Attacks, with bounded counts: what once broke, and what held and must keep holding.

`pytest tests/attack` runs all of it; LOCKSTEP_ATTACK=6 makes six times as many fuzzed archives and
simultaneous starts (`bounds`).

- fuzzed archives: no innocent is named, nobody in a healthy one, no bug (`test_fuzzed_archives`)
- names that are scripts, in a real browser, on every page and in the report; frames of others;
  ways out of a folder (`test_dashboard`)
- two writers of one folder (`test_claims`)
- JSON that is nested a hundred thousand deep (`test_deep_json`)
- names that steer a terminal (`test_escapes`)
"""

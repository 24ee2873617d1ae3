"""The verdict's JSON: the keys of docs/reference/verdict.md, their order, and only what JSON can
say."""

import json
import math

from lockstep.analyzer.shapes.run import Verdict
from lockstep.analyzer.shapes.verdict_json import verdict_json
from lockstep.analyzer.verdict.pipeline import diagnose

KEYS = ("schema_version", "run", "status", "sentence", "slowdown", "slowdown_interval",
        "lost_gpu_hours", "coverage", "culprits", "anomalies", "hang", "structure", "what_if",
        "rejected", "alternatives")  # fmt: skip
CULPRIT = ("scope", "rank", "node", "gpu", "uuid", "dp", "pp", "tp", "link", "from_step",
           "to_step", "since", "slowdown", "cause", "confidence", "tier", "evidence")  # fmt: skip


def test_the_keys_are_those_of_the_design_in_their_order(synthetic, fault):
    verdict = verdict_json(diagnose(synthetic(faults=[fault("thermal", 2)]).run()).verdict)

    assert KEYS == tuple(verdict)[: len(KEYS)]
    assert CULPRIT == tuple(verdict["culprits"][0])[: len(CULPRIT)]
    assert ("for", "text", "query") == tuple(verdict["culprits"][0]["evidence"][0])


def test_what_is_not_a_number_becomes_none():
    verdict = Verdict("r", "unknown", "", math.nan, (1.0, math.inf), None, 0.0)
    plain = verdict_json(verdict)

    assert (None, [1.0, None]) == (plain["slowdown"], plain["slowdown_interval"])
    json.dumps(plain, allow_nan=False)


def test_counterfactuals_keep_nine_digits_and_the_rest_six():
    told = {"method": "simulation", "S": 1.973012345678, "fixes": [{"gain": 0.123456789123}]}
    verdict = Verdict("r", "degraded", "", 1.973012345678, None, None, 1.0, what_if=told)
    plain = verdict_json(verdict)

    assert (1.97301235, 1.97301) == (plain["what_if"]["S"], plain["slowdown"])
    assert [{"gain": 0.123456789}] == plain["what_if"]["fixes"]


def test_the_verdict_of_one_run_is_the_same_every_time(synthetic, fault):
    recipe = synthetic(faults=[fault("thermal", 2)])

    assert verdict_json(diagnose(recipe.run()).verdict) == (
        verdict_json(diagnose(recipe.run()).verdict)
    )


def test_the_sentence_of_a_thermal_fault(synthetic, fault, golden):
    kinds = ("thermal", "power", "compute", "data", "cpu-quota", "freeze", "crash")
    sentences = [
        f"{kind}: {diagnose(synthetic(faults=[fault(kind, 2)]).run()).verdict.sentence}\n"
        for kind in kinds
    ]

    golden("verdict_sentences.txt", "\n".join(sentences))

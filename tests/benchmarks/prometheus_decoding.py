"""CPU of decoding what Prometheus answers: 1,000 series of 1,000 points, some 30 MB of JSON."""

import json
from time import process_time

import numpy as np

from lockstep.analyzer.read.prometheus.answers import decode

SERIES, POINTS = 1_000, 1_000
GOALS = {"ratio_to_json_and_float": 0.5}


def main() -> dict[str, float]:
    body = _answer()
    begin = process_time()
    ours = list(decode(body, "the answer"))
    middle = process_time()
    tree = json.loads(body)
    plain = [
        np.array([(float(at), float(value)) for at, value in one["values"]])
        for one in tree["data"]["result"]
    ]
    end = process_time()
    assert len(ours) == len(plain) == SERIES
    return {
        "megabytes": len(body) / 1e6,
        "cpu_seconds": middle - begin,
        "json_and_float_cpu_seconds": end - middle,
        "ratio_to_json_and_float": (middle - begin) / (end - middle),
    }


def _answer() -> bytes:
    dice = np.random.default_rng(0)
    result = [
        {
            "metric": {"__name__": "m", "rank": str(rank)},
            "values": [
                [1_760_000_000.123 + at, repr(float(value))]
                for at, value in enumerate(dice.random(POINTS) * 1e4)
            ],
        }
        for rank in range(SERIES)
    ]
    tree = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return json.dumps(tree, separators=(",", ":")).encode()

"""A stand-in for `python -m lockstep`: a run in a tenth of a second.

What it does is written in its name: `gpt-1` ends, `wait-1` goes on until it is interrupted,
`fail-1` fails without an archive, `crash-1` leaves one whose rank 1 crashed.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(words: list[str]) -> int:
    if words[0] != "run":
        return 0
    out = Path(words[words.index("--out") + 1])
    run = words[words.index("--run-id") + 1]
    kind = out.name.partition("-")[0]
    say("starting: 4 ranks and 4 collectors")
    if kind == "fail":
        say("lockstep: shared memory is full")
        return 69
    out.mkdir()
    began = datetime.now(UTC).isoformat()
    try:
        write(out, run, began, None)
        say("training: step 10 of 40, loss 0.611, 320 rows/s, 0:03 left")
        if kind == "wait":
            time.sleep(60)
    except KeyboardInterrupt:
        write(out, run, began, {"ending": "interrupted", "ranks": [], "reason": "by a signal"})
        return 130
    if kind == "crash":
        (out / "logs").mkdir()
        (out / "logs" / "rank-1.log").write_text("step 9\nRuntimeError: no memory\n")
        reason = "rank 1 ended with exit code 1"
        write(out, run, began, {"ending": "crash", "ranks": [1], "reason": reason})
        return 70
    write(out, run, began, {"ending": "finished", "ranks": [], "reason": ""})
    return 0


def write(out: Path, run: str, began: str, outcome: object) -> None:
    told = {
        "schema_version": 1, "run": run, "workload": "gpt", "started": began,
        "ended": None if outcome is None else datetime.now(UTC).isoformat(), "outcome": outcome,
        "layout": {"world": 4, "nodes": 4, "ranks_per_node": 1, "dp": 4, "pp": 1, "tp": 1},
    }  # fmt: skip
    (out / "run.json").write_text(json.dumps(told))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

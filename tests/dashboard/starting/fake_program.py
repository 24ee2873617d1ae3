"""A stand-in for `python -m lockstep`: what a run shows of itself, in a tenth of a second.

What it does is written in its name: `gpt-1` ends, `wait-1` goes on until it is interrupted,
`deaf-1` goes on even then, `fail-1` fails.
"""

import json
import signal
import sys
import time
from pathlib import Path


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def main(words: list[str]) -> int:
    command = words[0]
    if command != "run":
        say(f"{command} {words[1]}")
        return 0
    out = Path(words[words.index("--out") + 1])
    kind = out.name.partition("-")[0]
    if kind == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    say("starting: 4 ranks and 4 collectors")
    if kind == "fail":
        say("lockstep: rank 1 failed")
        return 70
    out.mkdir()
    (out / "run.json").write_text(json.dumps({"run": f"run-of-{out.name}"}))
    say("training: step 10 of 40, loss 0.611, 320 rows/s, 0:03 left")
    if kind in ("wait", "deaf"):
        try:
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            (out / "closed").touch()
            return 130
    if "--no-verdict" not in words:
        say("verdict: healthy")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

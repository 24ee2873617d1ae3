"""A loop without any framework, whose ranks never meet; it tells of its steps in its log."""

from late import plan

how = plan()
recorder = how.recorder()
for step in recorder.steps(range(how.steps)):
    how.work(step)
    print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)  # noqa: T201

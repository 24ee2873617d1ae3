"""Walks a run step by step, as its clocks, heat, queues and restarts follow from each other."""

import numpy as np

from tests.benchmarks.foreign import effects as faulty
from tests.benchmarks.foreign.effects import StepEffects
from tests.benchmarks.foreign.faults import Fault
from tests.benchmarks.foreign.gpus import CLOCK_STEP, Clocks, Gpus
from tests.benchmarks.foreign.kinds import ENDINGS, PAUSES
from tests.benchmarks.foreign.loader import Loader
from tests.benchmarks.foreign.network import Network
from tests.benchmarks.foreign.noise import draw_noise
from tests.benchmarks.foreign.pipeline import order
from tests.benchmarks.foreign.scenario import FASTEST, Scenario
from tests.benchmarks.foreign.step import Exchanged, Work, clock_factor, exchange, work
from tests.benchmarks.foreign.tail import Tail, tail
from tests.benchmarks.foreign.timeline import Timeline, empty
from tests.benchmarks.simulated.arrays import Floats

TOKENS = 4096 * 8
"""Of a microbatch at usual length."""
WRITING = 4
"""Times of a checkpoint's seconds in which it is written behind the training, where it is."""


def simulate(scenario: Scenario, faults: list[Fault]) -> Timeline:
    """The run with these faults; the same draws whichever they are."""
    return _Walk(scenario, faults).run()


class _Walk:
    def __init__(self, scenario: Scenario, faults: list[Fault]) -> None:
        layout, surroundings = scenario.layout, scenario.surroundings
        self._scenario, self._faults = scenario, faults
        self._noise = draw_noise(scenario)
        self._network = Network(scenario, scenario.stream("net"))
        self._usual_rates = self._network.rates({})
        self._flaps = scenario.stream("flap")
        self._flapping = [fault.node for fault in faults if fault.kind == "portflap"]
        self._now: Floats = np.full(layout.ranks, surroundings.begin)
        self._gpus = Gpus(scenario)
        self._loader = Loader(scenario, self._now)
        self._written_until = -1.0
        self._passes = order(layout.pp, scenario.compute.microbatches)
        self._pauses = {
            step: (fault.rank, seconds)
            for fault in faults
            if fault.kind == PAUSES
            for step, seconds in fault.pauses(scenario.length.steps).items()
        }
        self._told = empty(scenario, faults, self._network)

    def run(self) -> Timeline:
        steps, told = self._scenario.length.steps, self._told
        for fault in self._faults:
            if fault.kind in ENDINGS:
                told.stop = fault
                steps = int(self._scenario.length.steps * fault.begin)
        for step in range(steps):
            self._step(step)
        told.cut(steps)
        told.finish = float(self._now.max())
        return told

    def _step(self, step: int) -> None:
        scenario, told = self._scenario, self._told
        if step in scenario.habits.attempts:
            self._begin_anew()
        begin = self._now
        told.start[step] = begin
        seconds = float(begin.mean() - scenario.surroundings.begin)
        share = step / scenario.length.steps
        effects = self._effects(step, share, seconds)
        clocks = self._gpus.clocks(share, seconds, effects)
        done = work(scenario, self._noise, step, clocks.clock, clocks.drift, effects)
        data = self._loader.fetch(step, begin, effects, self._noise.chance[step])
        transfers = self._transfers(step, effects)
        exchanged = exchange(
            scenario, self._noise, step, begin + data, done, effects, self._passes, transfers
        )
        pause = self._pauses.get(step)
        rest = tail(
            scenario, self._noise, step, exchanged, done,
            clock_factor(scenario, clocks.clock), effects, transfers, pause,
        )  # fmt: skip
        if "checkpoint" in rest.tags and scenario.habits.checkpoint_async:
            self._written_until = seconds + scenario.habits.checkpoint_seconds * WRITING
        if pause is not None:
            rank, length = pause
            moment = rest.before_other[rank]
            told.pauses.append((rank, float(moment), float(moment + length)))
        told.end[step] = self._now = rest.end
        told.transfers[step] = transfers
        told.tags.append(",".join(rest.tags))
        self._tell_times(step, data, done, exchanged, rest)
        self._tell_processors(step, data, done, rest, pause)
        self._tell_gpus(step, clocks, done, rest, effects)

    def _begin_anew(self) -> None:
        """After a minute or two, with cool GPUs, full queues and new ways through the network."""
        pause = 90 * float(self._scenario.stream("gap").random())
        self._now = np.full(self._scenario.layout.ranks, self._now.max() + 60 + pause)
        self._gpus.cool()
        self._loader.restart(self._now)
        self._network.connect()

    def _effects(self, step: int, share: float, seconds: float) -> StepEffects:
        scenario, told = self._scenario, self._told
        surroundings = scenario.surroundings
        effects = faulty.neutral(scenario)
        every = surroundings.cron_every
        if every and (seconds % every) < surroundings.cron_seconds:
            left = surroundings.cron_share * self._noise.cron[step]
            effects.host *= np.minimum(1, left)
        levels = [fault.level(share, seconds) for fault in self._faults]
        chance = self._noise.chance[step]
        faulty.apply(scenario, self._network, self._flaps, self._faults, levels, chance, effects)
        if seconds < self._written_until:
            effects.host = effects.host * 0.85
        told.levels[step] = levels
        told.host[step], told.disk[step] = effects.host, effects.disk
        told.memory[step] = effects.memory
        told.outages[step, self._flapping] = effects.outage
        return effects

    def _transfers(self, step: int, effects: StepEffects) -> Floats:
        """(groups,) seconds of all gradients, in this step."""
        scenario, layout, network = self._scenario, self._scenario.layout, self._network
        if layout.dp == 1:
            return np.zeros(len(network.groups))
        alone = scenario.length.step_seconds * scenario.communication.share
        usual = self._usual_rates
        with np.errstate(invalid="ignore"):  # of groups inside a node, which have no rate
            across = alone * self._noise.traffic[step] * usual / network.rates(effects.links)
        seconds: Floats = np.where(np.isfinite(usual), across, alone * 0.25)
        seconds = seconds * np.repeat(self._noise.transfers[step], layout.tp)
        if effects.outage:
            touched = network.touching(self._flapping)
            seconds = seconds + np.where(touched, effects.outage, 0)
        return seconds

    def _tell_times(
        self, step: int, data: Floats, done: Work, exchanged: Exchanged, rest: Tail
    ) -> None:
        told, count = self._told, self._scenario.compute.microbatches
        stages = exchanged.pipeline
        apart = self._scenario.communication.waits_in_other
        in_forward, in_backward = (0, 0) if apart else (stages / 3, stages * 2 / 3)
        forward = count * done.forward + exchanged.tp_forward + in_forward
        told.run_queue[step], told.throttled[step] = done.run_queue, done.throttled
        for phase, seconds in (
            ("data", data),
            ("forward", forward + exchanged.first_wait),
            ("backward", count * done.backward + exchanged.tp_backward + in_backward),
            ("grad_sync", rest.gradients),
            ("optimizer", rest.optimizer + rest.gathering),
            ("checkpoint", rest.checkpoint),
            ("eval", rest.evaluation),
            ("other", rest.other + (stages if apart else 0)),
        ):
            told.phases[phase][step] = seconds
        own = data + count * (done.forward + done.backward) + rest.own_clipping + rest.optimizer
        told.own[step] = own + rest.own_checkpoint + rest.own_evaluation + rest.other
        in_tp = exchanged.tp_forward + exchanged.tp_backward + exchanged.first_wait
        told.waits["dp"][step] = exchanged.in_collectives + rest.gathering
        told.waits["pp"][step] = stages
        told.waits["tp"][step] = in_tp
        told.waits["world"][step] = rest.world

    def _tell_processors(
        self, step: int, data: Floats, done: Work, rest: Tail, pause: tuple[int, float] | None
    ) -> None:
        scenario, told = self._scenario, self._told
        habits, count = scenario.habits, scenario.compute.microbatches
        wall, spin = told.end[step] - told.start[step], scenario.communication.spin
        if spin:
            without = wall * 0.97 - done.run_queue - done.throttled
            cpu = np.maximum(0.05 * wall, without)
        else:
            busy = count * 2 * done.launching + rest.other * 0.9 + data * 0.2 + 0.02 * wall
            cpu = np.minimum(wall, busy)
        if pause is not None:
            rank, seconds = pause
            cpu[rank] = np.maximum(0.01, cpu[rank] - seconds * (0.97 if spin else 0.9))
        told.cpu[step] = cpu
        tokens: float | Floats = TOKENS * count
        if habits.tokens_told:
            lengths = self._noise.lengths[step, scenario.layout.dp_of]
            tokens = np.round(TOKENS * count * habits.work[step] * lengths)
        told.tokens[step] = tokens

    def _tell_gpus(
        self, step: int, clocks: Clocks, done: Work, rest: Tail, effects: StepEffects
    ) -> None:
        told, count = self._told, self._scenario.compute.microbatches
        wall = told.end[step] - told.start[step]
        busy = np.clip((3 * count * done.kernels + rest.optimizer) / wall, 0, 1)
        watts, told.hot[step] = self._gpus.warm(clocks, wall, busy, effects.resistance)
        below = np.clip((FASTEST - clocks.capped) / (0.05 * FASTEST), 0.05, 1)
        told.power_capped[step] = np.where(clocks.capped < FASTEST, wall * busy * below, 0)
        told.braked[step] = np.where(effects.brake < FASTEST, wall * 0.95, 0)
        told.clock[step] = np.round(clocks.clock / CLOCK_STEP) * CLOCK_STEP
        told.celsius[step], told.watts[step] = self._gpus.celsius, watts
        told.busy[step] = busy

"""Hardware that deviates from its peers, whether or not it costs time yet, also without a run.

Sparse and quiet: what deviates has to be several times further from its peers than healthy parts
are from each other, and for several scrapes. Only errors that no healthy part has are always
reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lockstep.analyzer.hardware.anomalies.deviation import Deviation, merge_deviations
from lockstep.analyzer.hardware.anomalies.events import events, silent_nodes, vanished_gpus
from lockstep.analyzer.hardware.anomalies.levels import level_deviations
from lockstep.analyzer.hardware.anomalies.panel import Panel, Place, as_panel
from lockstep.analyzer.hardware.anomalies.trust import exchanged_parts, mark_untrusted, one_name
from lockstep.analyzer.shapes.run import RankInfo
from lockstep.analyzer.shapes.wording import listed


@dataclass(frozen=True, slots=True)
class JudgedHardware:
    """Hardware, judged.

    Attributes:
        samples: As given, each node under one name.
        panel: What was compared.
        deviations: Those of one part of a GPU as one, the gravest first.
        missing: What was not there or not to be believed, in words.
    """

    samples: pd.DataFrame
    panel: Panel
    deviations: tuple[Deviation, ...]
    missing: tuple[str, ...]


def judge(samples: pd.DataFrame, ranks: Sequence[RankInfo] = ()) -> JudgedHardware:
    """Compare the hardware of all nodes in the samples.

    Args:
        samples: contract.archive.SAMPLES, of a run's nodes or of a whole fleet.
        ranks: The run's ranks where there is a run: only GPUs of one stage have the same load.
    """
    samples, renamed = one_name(samples)
    stages: dict[Place, int] = {
        (info.node, info.gpu): info.pp for info in ranks if info.gpu is not None
    }
    seen = as_panel(samples, stages)
    since, exchanged = exchanged_parts(seen)
    believed, doubts = mark_untrusted(seen.believed(since, {}))
    deviations = (*events(believed), *vanished_gpus(believed), *level_deviations(believed))
    notes = (*renamed, *exchanged, *doubts, *silent_nodes(believed))
    missing = (*notes, *_absent(stages, believed))
    return JudgedHardware(samples, believed, merge_deviations(deviations), missing)


def _absent(stages: Mapping[Place, int], seen: Panel) -> tuple[str, ...]:
    """How many of the run's GPUs reported anything, where it is not all or none."""
    silent = sorted(set(stages) - set(seen.places))
    reported = len(stages) - len(silent)
    if not reported or not silent:
        return ()
    names = listed([f"{node}:{gpu}" for node, gpu in silent])
    return (f"only {reported} of {len(stages)} GPUs reported anything, not {names}",)

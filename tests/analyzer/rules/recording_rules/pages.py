"""Input series of promtool: five ranks on five nodes, each page with all labels it has."""

RANKS = 5


class Pages:
    """Input series of promtool: five ranks on five nodes, a step of 100 ms of own time each."""

    def __init__(self) -> None:
        self.series: dict[str, str] = {}
        for rank in range(RANKS):
            self.rank(rank)

    def rank(
        self, rank: int, own: str = "0+1x40", steps: str = "0+10x40", node: str | None = None,
        target: str | None = None, attempt: int = 0, up: str = "1x40", info: str = "1x40",
        known: str | None = None,
    ) -> None:  # fmt: skip
        node = node or f"node-{rank}"
        page = target or f'job="lockstep",instance="{node}:9410"'
        mine = f'{page},run="r",rank="{rank}"'
        place = (
            f'attempt="{attempt}",local_rank="0",world_size="{RANKS}",dp="{rank}",pp="0",tp="0",'
            f'ep="0",cp="0",gpu="0",uuid="GPU-{rank}",pid="{attempt}"'
        )
        label = "exported_node" if "node=" in page else "node"
        self.series |= {
            f'lockstep_rank_info{{{mine},{place},{label}="{node}"}}': info,
            f"lockstep_rank_up{{{mine}}}": up,
            f"lockstep_train_own_seconds_total{{{mine}}}": own,
            f"lockstep_train_steps_total{{{mine}}}": steps,
            f"lockstep_train_known_steps_total{{{mine}}}": steps if known is None else known,
        }

    def collectives(self, rank: int, seconds: str) -> None:
        mine = f'job="lockstep",instance="node-{rank}:9410",run="r",rank="{rank}",group="dp"'
        self.series |= {
            f"lockstep_train_collective_seconds_total{{{mine}}}": seconds,
            f"lockstep_train_collectives_total{{{mine}}}": "0+10x40",
        }

    def gpu(self, rank: int, metric: str, values: str, label: str = "") -> None:
        mine = f'job="lockstep",instance="node-{rank}:9410",gpu="0",uuid="GPU-{rank}"'
        self.series[f"{metric}{{{mine}{label}}}"] = values

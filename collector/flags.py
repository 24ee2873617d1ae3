"""Every flag of the collector, for its own program and for `lockstep collect`."""

from typing import NamedTuple


class Flag(NamedTuple):
    """One flag, `--<name>` with hyphens.

    Attributes:
        name: A field of Config, or what the program does with it.
        metavar: What its value is; empty for a switch.
        setting: Whether it is a setting, which the file and the environment may hold as well.
    """

    name: str
    metavar: str
    help: str
    setting: bool = True

    @property
    def option(self) -> str:
        """As it is written on the command line."""
        return f"--{self.name.replace('_', '-')}"


FLAGS: tuple[Flag, ...] = (
    Flag("listen", "HOST:PORT", "address of the page (127.0.0.1:9410); port 0 = any"),
    Flag("config", "FILE", "TOML file with [collector], [paths], [nccl], [network], [web]", False),
    Flag("sources", "NAME,...", "read these sources only (all; --check names them)"),
    Flag("fast_period", "TIME", "between readings of what changes quickly (1s)"),
    Flag("slow_period", "TIME", "between readings of what changes slowly (30s)"),
    Flag("ttl", "TIME", "after which a value that was not renewed leaves the page (5s)"),
    Flag("series_cap", "COUNT", "series on the page at most (2500)"),
    Flag("state_dir", "DIR", "where counters outlive a restart (nowhere)"),
    Flag("proc", "DIR", "where procfs is mounted (/proc)"),
    Flag("sys", "DIR", "where sysfs is mounted (/sys)"),
    Flag("lockstep_dir", "DIR", "where the ranks write (/dev/shm/lockstep)"),
    Flag("kmsg", "FILE", "the kernel's log (/dev/kmsg)"),
    Flag("pod_resources", "SOCKET", "where the kubelet says which pod has which GPU"),
    Flag("ras", "HOST:PORT,...", "where NCCL's RAS answers ($NCCL_RAS_ADDR, localhost:28028)"),
    Flag("ras_polling", "WHEN", "when RAS is asked: guarded, always, never (guarded)"),
    Flag("inspector_dir", "DIR", "where NCCL Inspector writes ($NCCL_INSPECTOR_DUMP_DIR)"),
    Flag("flight_recorder", "PREFIX", "dumps of the flight recorder ($TORCH_FR_DUMP_TEMP_FILE)"),
    Flag("dumps", "BOOL", "flight-recorder dumps of ranks for who asks: true, false (true)"),
    Flag("stacks", "DEPTH", "stacks of ranks for who asks: off, python, native (off)"),
    Flag("virtual_devices", "", "show network devices without hardware too"),
    Flag("dcgm_exporter", "URL", "page of a dcgm-exporter, read where NVML and DCGM are not"),
    Flag("replay", "DIR", "play a capture in place of this machine's GPUs"),
    Flag("web_config_file", "FILE", "TLS and users, as Prometheus' exporters; read anew on change"),
    Flag("legacy_dcgm", "", "serve /metrics/dcgm with the names of dcgm-exporter"),
    Flag("node_name", "NAME", "name of the node where the host name is another's, as in a pod"),
    Flag("node", "NAME", "name of the emulated node"),
    Flag("announce", "FILE", "write HOST:PORT there once the page is up", False),
    Flag("once", "", "print one page and exit", False),
    Flag("check", "", "say what each source sees and why not, and exit", False),
    Flag("capture", "DIR", "record this machine's GPUs there, and exit", False),
    Flag("die_with_parent", "PID", "end when the starting process, PID, ends", False),
)
"""In the order of the help."""
EPILOG = "Settings: flags over LOCKSTEP_<SECTION>_<KEY> over the configuration file."

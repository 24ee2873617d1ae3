"""Who holds which GPU: names of devices, words of processes, and both put together."""

import time
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.collector.clock import SystemClock
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.gpu import (
    PROCESSES,
    Gpu,
    GpuReading,
    Holder,
    PodDevice,
    PodDevices,
    RankDevice,
)
from lockstep.collector.readings.source import SourceError
from lockstep.collector.samples.kubelet import collect_allocation
from lockstep.collector.sources.gpu.nvml.source import Nvml
from lockstep.collector.sources.gpu.precedence import GpuInventory
from lockstep.collector.sources.kubelet.allocation.join import (
    Device,
    ProcessWords,
    device_named,
    environment_of,
    joined,
    listed,
    process_words,
    words_of,
)
from lockstep.collector.sources.kubelet.allocation.source import Allocation

A = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
B = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
MIG = "MIG-cccccccc-0000-0000-0000-000000000000"
POD_UID = "12345678-abcd-ef01-2345-6789abcdef01"


def part(uuid: str, instance: str) -> Gpu:
    return Gpu(1, uuid, info={"parent": B, "gpu_instance": instance, "compute_instance": "0"})


# The driver counts from 0 in the order of the bus, /dev/nvidiaN in the order of discovery.
GPUS = (Gpu(0, A, info={"minor": "1"}), Gpu(1, B, info={"minor": "0"}), part(MIG, "7"))


def given_to(pod: str, device: str, claim: str = "") -> PodDevice:
    return PodDevice("train", pod, "main", "nvidia.com/gpu", device, claim)


def rank(number: int, uuid: str, *, seen: bool = True, gpu: int | None = 0) -> RankDevice:
    pid = 100 + number if seen else None
    return RankDevice("gpt-1", number, number, 2, pid, gpu, uuid)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        (A, Device("0", A)),
        (f"{A}::3", Device("0", A)),
        (MIG, Device("1", MIG)),
        (f"{MIG}::12", Device("1", MIG)),
        ("GPU-99999999-0000-0000-0000-000000000000", Device("", "GPU-99999999" + A[12:])),
        ("nvidia1", Device("0", A)),
        ("nvidia1/vgpu4", Device("0", A)),
        ("nvidia0/gi7", Device("1", MIG)),
        ("nvidia0/gi7/vgpu0", Device("1", MIG)),
        ("gpu-1", Device("0", A)),
        ("gpu-1 k8s.gpu.nvidia.com/device=x-gpu-1", Device("0", A)),
        (f"odd-name nvidia.com/gpu={B}", Device("1", B)),
        ("nvidia5", None),
        ("nvidia0/gi3", None),
        ("gpu-0-mig-1g10gb-19-0", None),
        ("mlx5_0", None),
        ("", None),
    ],
)
def test_every_form_of_a_device_id_is_understood(name, device):
    assert device == device_named(name, GPUS)


def test_a_gpu_instance_that_several_share_names_none_of_them():
    other = part("MIG-dddddddd-0000-0000-0000-000000000000", "7")

    assert device_named("nvidia0/gi7", (*GPUS, other)) is None


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_device_or_none(text):
    device = device_named(text, GPUS)

    assert device is None or device.uuid


def test_the_rank_is_on_the_pod_that_has_its_gpu():
    holders, rejected = joined(
        [given_to("gpt-0", A), given_to("gpt-1", B)], [rank(0, A), rank(1, B)], [], {}, GPUS
    )

    assert [] == rejected
    assert [
        Holder("0", A, "train", "gpt-0", "", "main", "", "gpt-1", "0", "0", "2"),
        Holder("1", B, "train", "gpt-1", "", "main", "", "gpt-1", "1", "1", "2"),
    ] == holders


def test_in_a_container_the_uuid_counts_and_not_the_number_that_the_rank_sees():
    (holder,), _ = joined([given_to("gpt-1", B)], [rank(1, B, gpu=0)], [], {}, GPUS)

    assert ("1", B, "gpt-1", "1") == (holder.gpu, holder.uuid, holder.pod, holder.rank)


def test_of_pods_that_share_a_gpu_each_has_its_own_rank():
    words = {100: ProcessWords(hostname="one-0"), 101: ProcessWords(hostname="two-0")}
    pods = [given_to("one-0", f"{A}::0"), given_to("two-0", f"{A}::1"), given_to("idle", f"{A}::2")]

    holders, _ = joined(pods, [rank(0, A), rank(1, A)], [], words, GPUS)

    assert [("one-0", "0"), ("two-0", "1"), ("idle", "")] == [(h.pod, h.rank) for h in holders]


def test_a_rank_that_no_host_name_places_is_given_to_no_pod():
    pods = [given_to("one", f"{A}::0"), given_to("two", f"{A}::1")]

    holders, _ = joined(pods, [rank(0, A)], [], {100: ProcessWords(hostname="gpu-07")}, GPUS)

    assert [("", "0"), ("one", ""), ("two", "")] == [(h.pod, h.rank) for h in holders]


def test_replicas_of_a_gpu_in_one_container_are_one_series():
    holders, _ = joined([given_to("one", f"{A}::{n}") for n in range(4)], [], [], {}, GPUS)

    assert [Holder("0", A, "train", "one", "", "main")] == holders


def test_a_claim_says_its_name():
    (holder,), _ = joined([given_to("dra-0", "gpu-1", "train/gpus")], [rank(0, A)], [], {}, GPUS)

    assert ("train/gpus", "dra-0", "0", A) == (
        holder.claim,
        holder.pod,
        holder.rank,
        holder.uuid,
    )


def test_a_device_that_nobody_knows_is_counted_and_not_shown():
    holders, rejected = joined([given_to("dra-0", "gpu-9"), given_to("a", A)], [], [], {}, GPUS)

    assert ["a"] == [holder.pod for holder in holders]
    assert ["unknown_device"] == [one.reason for one in rejected]
    assert "gpu-9 of train/dra-0" in rejected[0].message


def test_a_process_of_the_driver_is_told_by_its_environment_and_a_rank_by_its_ring():
    words = {
        7: ProcessWords("3", "1", "8", "4711", POD_UID, "pod"),
        100: ProcessWords("99", "99", "99"),
    }
    gpus = (Gpu(0, A, values={PROCESSES: {"7": 1, "100": 1, "8": 1}}),)

    holders, _ = joined([], [rank(0, A)], listed(gpus), words, gpus)

    assert [("gpt-1", "0", ""), ("", "3", "4711")] == [
        (holder.run, holder.rank, holder.slurm_job) for holder in holders
    ]
    assert ("1", "8", POD_UID) == (
        holders[1].local_rank,
        holders[1].world_size,
        holders[1].pod_uid,
    )


def test_a_rank_in_a_container_is_known_by_the_pid_of_the_driver():
    words = {7: ProcessWords("0", "0", "2", "", POD_UID, "gpt-0")}
    gpus = (Gpu(0, A, values={PROCESSES: {"7": 1}}),)
    pods = [given_to("gpt-0", f"{A}::0"), given_to("gpt-1", f"{A}::1")]

    holders, _ = joined(pods, [rank(0, A, seen=False)], listed(gpus), words, gpus)

    assert [("gpt-0", POD_UID, "gpt-1", "0"), ("gpt-1", "", "", "")] == [
        (holder.pod, holder.pod_uid, holder.run, holder.rank) for holder in holders
    ]


def test_of_two_processes_that_could_be_the_rank_neither_is():
    words = {n: ProcessWords("0", "0", "2", hostname=f"gpt-{n}") for n in (7, 8)}
    gpus = (Gpu(0, A, values={PROCESSES: {"7": 1, "8": 1}}),)
    pods = [given_to("gpt-7", f"{A}::0"), given_to("gpt-8", f"{A}::1")]

    holders, _ = joined(pods, [rank(0, A, seen=False)], listed(gpus), words, gpus)

    assert [("", "0"), ("gpt-7", ""), ("gpt-8", "")] == [(one.pod, one.rank) for one in holders]


def test_ranks_of_one_number_on_a_shared_gpu_are_told_apart_by_their_processes():
    words = {n: ProcessWords("0", "0", "2", hostname=f"gpt-{n}") for n in (100, 8)}
    gpus = (Gpu(0, A, values={PROCESSES: {"100": 1, "8": 1}}),)
    pods = [given_to("gpt-100", f"{A}::0"), given_to("gpt-8", f"{A}::1")]

    holders, _ = joined(pods, [rank(0, A)], listed(gpus), words, gpus)

    assert [("gpt-100", "gpt-1", "0"), ("gpt-8", "", "0")] == [
        (one.pod, one.run, one.rank) for one in holders
    ]


def test_a_process_on_a_mig_device_is_on_that_device():
    whole = Gpu(1, B, info={"minor": "0"}, values={PROCESSES: {"7/7": 1, "8/3": 1}})

    assert [(Device("1", MIG), 7)] == listed((whole, part(MIG, "7")))


@pytest.mark.parametrize(
    ("environment", "rank", "local_rank", "world_size"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, "3", "1", "8"),
        ({"RANK": "3", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "3", "", ""),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}, "5", "1", "16"),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "4", "SLURM_PROCID": "0",
            },
            "2", "0", "4",
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, "1", "1", "2"),
        ({"RANK": "three", "LOCAL_RANK": "1"}, "", "", ""),
        ({"RANK": "-1"}, "", "", ""),
        ({"RANK": "007"}, "7", "", ""),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "8"}, "", "", ""),
        ({}, "", "", ""),
    ],
)  # fmt: skip
def test_the_innermost_launcher_says_the_rank(environment, rank, local_rank, world_size):
    words = words_of(environment, [])

    assert (rank, local_rank, world_size) == (words.rank, words.local_rank, words.world_size)


@pytest.mark.parametrize(
    ("cgroup", "job", "pod_uid"),
    [
        ("0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0", "1234", ""),
        ("0::/system.slice/gpu-07_slurmstepd.scope/job_1234/step_0", "1234", ""),
        ("9:memory:/slurm/uid_1000/job_77/step_batch/task_0", "77", ""),
        ("9:memory:/slurm_gpu-07/uid_1000/job_77/step_0", "77", ""),
        ("0::/job_5/elsewhere", "99", ""),
        (f"0::/kubepods/burstable/pod{POD_UID}/0123abcd", "99", POD_UID),
        (
            f"0::/kubepods-pod{POD_UID.replace('-', '_')}.slice/cri-containerd-0123.scope",
            "99",
            POD_UID,
        ),
        (f"0::/../../kubelet-kubepods-pod{POD_UID.replace('-', '_')}.slice/x", "99", POD_UID),
        ("nonsense", "99", ""),
    ],
)
def test_the_cgroup_tells_the_slurm_job_and_the_pod(cgroup, job, pod_uid):
    words = words_of({"SLURM_JOB_ID": "99"}, [cgroup])

    assert (job, pod_uid) == (words.slurm_job, words.pod_uid)


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_environment_gives_numbers_and_printable_words_only(raw):
    words = words_of(environment_of(raw + b"\0HOSTNAME=" + raw), [raw.decode("latin-1")])

    assert all(not text or text.isdecimal() for text in (words.rank, words.world_size))
    assert words.hostname.isprintable()


@pytest.fixture
def allocation(machine):
    """`allocation(ranks, pods)`: a source on the machine with GPUS."""

    def make(ranks=(), pods=None, gpus=GPUS):
        given = pods or PodDevices()
        return Allocation(machine.proc, lambda: given, lambda: ranks, lambda: gpus)

    return make


def environ(machine, pid: int, text: str) -> None:
    machine.file(machine.proc / str(pid) / "environ", text.replace(" ", "\0") + "\0")


def test_a_living_rank_is_asked_for_its_job_once(machine, allocation):
    machine.process(100)
    environ(machine, 100, "SLURM_JOB_ID=4711 RANK=0")
    source = allocation([rank(0, A)])

    before = source.read()
    (machine.proc / "100/environ").unlink()
    after = source.read()

    assert ["4711"] == [one.slurm_job for one in before.holders]
    assert before == after


def test_a_process_with_a_used_pid_is_another_process(machine, allocation):
    machine.process(100)
    environ(machine, 100, "SLURM_JOB_ID=4711")
    source = allocation([rank(0, A)])
    source.read()
    stat = machine.proc / "100/stat"
    left, right = stat.read_text().rsplit(")", 1)
    words = right.split()
    words[19] = "50000"
    stat.write_text(f"{left}) {' '.join(words)}\n")
    environ(machine, 100, "SLURM_JOB_ID=5000")

    assert ["5000"] == [one.slurm_job for one in source.read().holders]


def test_what_may_not_be_read_is_counted_once_and_the_rest_stands(machine, allocation):
    machine.process(100)
    (machine.proc / "100/environ").symlink_to("/dev/null")  # root is refused nothing else
    source = allocation([rank(0, A)])

    first, second = source.read(), source.read()

    assert (["symlink"], []) == (
        [one.reason for one in first.rejected],
        [one.reason for one in second.rejected],
    )
    assert ["0"] == [one.rank for one in second.holders]


def test_an_environment_that_another_user_may_not_read_is_no_failure_and_the_pod_is_told(
    machine, monkeypatch
):
    # As in a pod with hostPID: cgroups are for everybody, environments for who may trace.
    pod = "0f3b2c1d-0000-4000-8000-000000000001"
    machine.file(machine.proc / "100/cgroup", f"0::/kubepods/pod{pod}/c\n")

    def refused(path, limit):
        raise SourceError("permission", f"{path}: Permission denied")

    monkeypatch.setattr("lockstep.collector.sources.kubelet.allocation.join.read_bytes", refused)
    words, rejected = process_words(machine.proc, 100)

    assert (pod, "", []) == (words.pod_uid, words.rank, rejected)


def test_a_process_without_a_start_time_is_named(machine, allocation):
    machine.file(machine.proc / "100/stat", "100 (python) R\n")

    reading = allocation([rank(0, A)]).read()

    assert ["malformed"] == [one.reason for one in reading.rejected]


def test_a_node_without_gpu_kubelet_and_device_has_no_allocation(allocation):
    nothing = allocation([rank(0, "", gpu=None)], gpus=())

    assert not nothing.available()
    assert "no GPU, no kubelet" in nothing.why_not()
    assert () == nothing.read().holders


def test_every_field_of_a_holder_is_a_label_and_the_age_is_there_with_a_kubelet(
    machine, allocation
):
    assert m.GPU_ALLOCATION_INFO.labels == tuple(field.name for field in fields(Holder))

    with_kubelet = allocation(pods=PodDevices((given_to("a", A),), 2.5)).read()
    without = allocation([rank(0, A)]).read()

    assert [m.GPU_ALLOCATION_AGE(2.5)] == [
        one for one in collect_allocation(with_kubelet) if one.metric is m.GPU_ALLOCATION_AGE
    ]
    assert {m.GPU_ALLOCATION_INFO} == {one.metric for one in collect_allocation(without)}


def test_the_driver_says_which_processes_compute(nvml, machine):
    source = Nvml(machine.proc, machine.sys, SystemClock(), 0.1)
    try:
        until = time.monotonic() + 60
        while not (found := listed(source.read().gpus)) and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        source.close()

    assert {(Device("0", "GPU-0"), 1000), (Device("1", "GPU-1"), 1000)} >= set(found)
    assert found


class FakeGpus:
    def __init__(self, name: str, *gpus: Gpu) -> None:
        self.name, self.gpus, self.closed = name, gpus, False

    def available(self) -> bool:
        return self.name != "absent"

    def why_not(self) -> str:
        return "gone fishing"

    def read(self) -> GpuReading:
        if self.name == "failing":
            raise SourceError("io", "no")
        return GpuReading(self.gpus)

    def close(self) -> None:
        self.closed = True


def test_the_inventory_is_what_the_best_source_told_and_forgets_what_fails():
    inventory = GpuInventory()
    nvml, dcgm = FakeGpus("nvml", *GPUS), FakeGpus("dcgm", *GPUS[:1])
    first, second = inventory.watching(nvml), inventory.watching(dcgm)
    second.read()
    assert GPUS[:1] == inventory.gpus()
    first.read()
    assert GPUS == inventory.gpus()

    nvml.name = "failing"
    with pytest.raises(SourceError):
        first.read()
    assert GPUS[:1] == inventory.gpus()
    dcgm.name = "absent"
    assert not second.available()

    assert () == inventory.gpus()
    assert "gone fishing" == second.why_not()
    second.close()
    assert dcgm.closed

"""What tells whose machine it is does not leave it; what was alike stays alike."""

import random
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.doctor.bundle import anonymous
from lockstep.doctor.parts import Part, Piece
from lockstep.doctor.pseudonyms import Pseudonyms

HEX = "0123456789abcdef"


def digits(chance: random.Random, *counts: int, between: str = ":") -> str:
    return between.join("".join(chance.choices(HEX, k=count)) for count in counts)


def planted(chance: random.Random) -> dict[str, str]:
    """Names of a machine that nobody has."""
    letters = "".join(chance.choices(string.ascii_lowercase, k=6))
    token = "".join(chance.choices(string.ascii_letters + string.digits, k=30))
    return {
        "host": f"{letters}-{chance.randrange(10, 99)}",
        "fqdn": f"w{letters}{chance.randrange(100, 999)}.lab.example.org",
        "user": "u" + "".join(chance.choices(string.ascii_lowercase, k=7)),
        "project": "p" + "".join(chance.choices(string.ascii_lowercase, k=9)),
        "uuid": digits(chance, 8, 4, 4, 4, 12, between="-"),
        "serial": str(chance.randrange(10**12, 10**13)),
        "mac": digits(chance, 2, 2, 2, 2, 2, 2),
        "guid": digits(chance, 4, 4, 4, 4),
        "gid": "fe80:0000:0000:0000:" + digits(chance, 4, 4, 4, 4),
        "ipv4": f"{chance.randrange(11, 120)}.{chance.randrange(256)}.{chance.randrange(256)}.7",
        "ipv6": f"2001:db8::{digits(chance, 4, 4)}",
        "token": f"hf_{token}",
        "password": "x" + "".join(chance.choices(string.ascii_lowercase, k=12)),
        "key": f"Aa0{token}",
        "variable": "v" + "".join(chance.choices(string.ascii_lowercase, k=12)),
    }


TEXTS = (
    "6,1,100,-;NVRM: GPU at PCI:0000:9b:00: GPU-{uuid}\n",
    "6,2,100,-;NVRM: GPU Board Serial Number: {serial}\n",
    "6,3,100,-;eth0: renamed from enx{mac_bare}; link/ether {mac}\n",
    "inet {ipv4}/24 inet6 {ipv6}/64\n",
    '{{"host": "{host}", "addr": "{ipv4}", "uuid": "GPU-{uuid}"}}\n',
    'DCGM_FI_DEV_GPU_TEMP{{gpu="0", UUID="GPU-{uuid}",Hostname="{fqdn}",pod="{project}"}} 33\n',
    "    Serial Number                         : {serial}\n    GPU UUID         : GPU-{uuid}\n",
    "  Process 60004 on node {host} managing GPU 0; then {fqdn}\n",
    "node_guid: {guid} gid {gid} hw {mac} 0x{guid_bare} guid=0x{guid_bare}\n",
    "/home/{user}/{project}/train.py: step 3 loss 2.5 {user}@{fqdn}\n/scratch/{user}/{project}\n",
    "HF_TOKEN={token} password: {password} --api-key {key} {key}\nMY_SETTING={variable}\n",
    "Authorization: Bearer {key}\n",
    '"secret": "{password} and more" https://{user}:{password}@{fqdn}/x\n',
)


def texts(names: dict[str, str], chance: random.Random) -> list[str]:
    bare = {"mac_bare": names["mac"].replace(":", ""), "guid_bare": names["guid"].replace(":", "")}
    return [each.format(**names, **bare) for each in chance.sample(TEXTS, len(TEXTS))]


def replaced(names: dict[str, str], chance: random.Random) -> str:
    pieces = tuple(Piece(f"kernel_log/{i}", text) for i, text in enumerate(texts(names, chance)))
    known = Pseudonyms(hosts=[names["host"]], users=[names["user"]])
    (part,) = anonymous([Part("kernel_log", pieces)], known)
    return "".join(piece.text for piece in part.pieces)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_nothing_that_was_planted_survives(seed):
    chance = random.Random(seed)
    names = planted(chance)
    told = replaced(names, chance).lower()
    for kind, name in names.items():
        assert name.lower() not in told, kind
    for bare in (names["mac"], names["guid"]):
        assert bare.replace(":", "") not in told
    assert names["fqdn"].partition(".")[0] not in told


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_name_gets_the_same_pseudonym_everywhere(seed):
    chance = random.Random(seed)
    names = planted(chance)
    told = replaced(names, chance)

    assert 1 == len(set(re.findall(r"GPU-([0-9a-f-]{36})", told)))
    serials = re.findall(r"Serial Number\W+(serial-\w+)", told)
    assert [serials[0]] * 2 == serials
    mac = re.search(r"link/ether (\S+)", told)[1]
    assert f"enx{mac.replace(':', '')}" in told
    assert f"hw {mac}" in told
    on = re.search(r"on node (\S+) managing", told)[1]
    assert f'"host": "{on}"' in told
    user = re.search(r"/home/([\w-]+)/", told)[1]
    assert f"/home/{user}/path-" in told


def test_two_bundles_do_not_share_a_pseudonym():
    text = "GPU-2f1b8a0c-1111-2222-3333-444455556666"

    assert Pseudonyms()(text) != Pseudonyms()(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:9b:00): 74, pid=1234, name=python, NVLink: 14(0x0, 0x0, 0x10000)",
        "mlx5_core 0000:3b:00.0: insufficient power (49W), fw 28.39.1002",
        "VBIOS Version : 96.00.74.00.01 Serial Number : N/A Chassis Serial Number : N/A",
        "[2023-07-25 21:03:17,269] step=35, skipped=0, lr=[2.1e-06]; 7,282 tokens: 12 12:30:05",
        "consumed_tokens=4096 tokens_per_second: 912.5 RunningAvgSamplesPerSec=7.8 127.0.0.1:28028",
        "NCCL_DEBUG=INFO WORLD_SIZE=8 nvidia.com/gpu.product topology.kubernetes.io/zone ::1",
        "     rx_prio0_buf_discard_packets: 4294967295",
    ],
)  # fmt: skip
def test_numbers_and_places_that_matter_stay(text):
    assert text == Pseudonyms(hosts=["gpu-1"], users=["root"])(text)


def test_a_machine_of_the_same_series_is_one_of_ours():
    told = Pseudonyms(hosts=["dgx-a100-07.lab.example.org"])(
        "dgx-a100-08 DGX-A100-09.lab.example.org"
    )

    assert re.fullmatch(r"host-\w{8} host-\w{8}", told)


@given(st.text(max_size=300))
def test_any_text_can_be_looked_through(text):
    names = Pseudonyms(hosts=["abc"], users=["def"])
    names.learn(text)
    once = names(text)

    assert isinstance(once, str)


def renamed(text, **own):
    names = Pseudonyms(**own)
    names.learn(text)
    return names(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpu-node-08:12345:12350 [3] NCCL INFO x\ngpu-node-08 is up", "gpu-node-08"),
        ("[r0]:nx-08:1:2 [0] 2026-01-02 03:04:05 NCCL WARN x\nnx-09 is up", "nx-0"),
        ("[2026-01-02 03:04:05] trn7:1:2 [0] misc/socket.cc:1 NCCL WARN x", "trn7"),
        ("srun: error: hal42: task 3: Exited with exit code 1; hal42", "hal42"),
        ("dgx08:1:2 [3] NCCL INFO", "dgx08"),
        ("dgx08 answers, DGX09.lab answers", "dgx0"),
        ("instance i-0123456789abcdef0 i-0123456789abcdef0.x", "0123456789abcdef0"),
        ("vpc-0a1b2c3d4e5f60718 subnet-0a1b2c3d4e5f60718 eni-0a1b2c3d", "0a1b2c3d"),
        ('"oci.oraclecloud.com/host.id": "971b2", of 971b2', "971b2"),
        ('label_node_coreweave_cloud_host_id="g4f1a"} g4f1a', "g4f1a"),
        ('"cloud.google.com/gce-topology-host": "7007"', "7007"),
        ('"topology.k8s.aws/network-node-layer-2": "nn-22exemplum"', "22exemplum"),
        ("on dgx[001-004,009] and dgx003", "dgx"),
        ("rack[1-2]n[01-04] r", "rack"),
        ("node[001-004] node002", "node0"),
        ("[SN: MT2203FT01234] MT2203FT01234", "MT2203FT01234"),
        ("wandb: View run at https://wandb.ai/acmeteam/secretllm/runs/a1b2c3d4", "acmeteam"),
        ("wandb: View run at https://wandb.ai/acmeteam/secretllm/runs/a1b2c3d4", "secretllm"),
        ("wandb: View run at https://wandb.ai/acmeteam/secretllm/runs/a1b2c3d4", "a1b2c3d4"),
    ],
)  # fmt: skip
def test_names_of_other_machines_and_of_clouds_go(text, name):
    assert name.lower() not in renamed(text, hosts=["login1", "dgx07"]).lower()


@pytest.mark.parametrize(
    "text",
    [
        "i-0123456789abcdef0 i-0123456789abcdef0",
        "gpu-node-08:1:2 [3] NCCL INFO gpu-node-08",
        'label_oci_oraclecloud_com_host_id="971b2" 971b2',
        '"cloud.google.com/gce-topology-host": "h7007", h7007',
        "srun: error: hal42: task 3: Exited hal42.lab.example.org",
        "SN: MT2203FT01234 MT2203FT01234",
    ],
)
def test_a_name_is_called_the_same_where_nothing_tells_it(text):
    told = renamed(text, hosts=["login1"])

    assert 2 == max(
        told.count(word) for word in re.findall(r"(?:i|host|place|serial)-[0-9a-f]+", told)
    )


def test_hosts_of_a_list_are_called_as_they_are_alone():
    first, second, alone = re.findall(r"host-\w{8}", renamed("dgx[001-002] dgx002"))

    assert second == alone != first


def test_a_list_that_is_too_long_is_let_be():
    assert "ab[0-999999] " == renamed("ab[0-999999] ")


WORDS = (
    "sm90 cu12 cu128 fp16 fp8 bf16 int8 mlx5_0 mlx5_bond_0 eth0 eth1 x86 x86_64 gpu0 gpu[0-7]"
    " ib0 nvme0n1 rank3 cpu0 node0 A100 H100 h200 layers[0-3] a[0] 0[0] -> 1[1] [send] via NET/IB/0"
    " NCCL version 2.27.3+cuda12.9 12:30:05 [3] i-deadbeefs data[0,1]"
)


@pytest.mark.parametrize("host", ["eth1", "cu07", "sm80", "mlx5_1", "ib1", "x87", "fp9", "h101"])
def test_words_of_the_formats_are_no_hosts_of_a_series(host):
    assert WORDS.replace(host, "") == re.sub(r"host-\w{8}", "", renamed(WORDS, hosts=[host]))

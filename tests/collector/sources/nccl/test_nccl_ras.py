"""NCCL's RAS over real sockets: every version of the server, and everything that is none."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Address
from lockstep.collector.contract import metrics as m
from lockstep.collector.readings.source import RankProcess, SourceError
from lockstep.collector.samples.nccl import collect_ras
from lockstep.collector.sources.nccl.ras import client
from lockstep.collector.sources.nccl.ras.client import ask
from lockstep.collector.sources.nccl.ras.endpoint import POLL_SECONDS, RARELY_SECONDS, Endpoint
from lockstep.collector.sources.nccl.ras.guard import DEFECTS, Polling, defects
from lockstep.collector.sources.nccl.ras.source import MAX_ENDPOINTS, NcclRas
from tests.machine import slowness

NCCL = Path(__file__).parents[3] / "fixtures" / "nccl"
JSON = (NCCL / "ras-status-2.29.json").read_text()
TEXT = (NCCL / "ras-status-2.24.txt").read_text()
LOCAL_JSON = JSON.replace("172.16.64.245", "127.0.0.1")
PEER_DEAD = '{ "timestamp": "t", "group": "LIFECYCLE",\n  "event": "PEER_DEAD" }\n'
END = 10.0
QUICK = 0.05

Speak = Callable[[socket.socket], None]


class Server:
    """Listens on a port of its own and speaks with every client as told."""

    def __init__(self, speak: Speak) -> None:
        self.speak = speak
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._speak, args=(client,), daemon=True).start()

    def _speak(self, client: socket.socket) -> None:
        with client:
            try:
                self.speak(client)
            except OSError:
                return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Ras(Server):
    """RAS as docs/method/collecting.md has it; `version` decides what it knows."""

    def __init__(
        self, version: tuple[int, int] = (2, 29), end: str = "\n", document: str = LOCAL_JSON
    ):
        self.version, self.end, self.document = version, end, document
        self.events = PEER_DEAD
        self.hold = threading.Event()
        super().__init__(self.answer)

    def answer(self, client: socket.socket) -> None:
        in_json = False
        with client.makefile("rw", newline="") as stream:

            def say(line: str) -> None:
                stream.write(line + self.end)
                stream.flush()

            for line in stream:
                command = line.strip().upper()
                self.heard.append(command)
                if command.startswith("CLIENT PROTOCOL "):
                    say("SERVER PROTOCOL 2")
                elif command.startswith("TIMEOUT "):
                    say("OK")
                elif command == "SET FORMAT JSON" and self.version >= (2, 28):
                    in_json = True
                    say("OK")
                elif command in ("VERBOSE STATUS", "STATUS"):
                    document = self.document if in_json else TEXT
                    stream.write(document.replace("\n", self.end))
                    stream.flush()
                    return
                elif command == "MONITOR LIFECYCLE" and self.version >= (2, 29):
                    say("OK")
                    stream.write(self.events)
                    stream.flush()
                    self.hold.wait(END)
                    return
                else:
                    say(f"ERROR: Unknown command {line.strip()!r}")


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as stack:

        def start(server: Server) -> Server:
            stack.callback(server.close)
            return server

        yield start


@contextmanager
def source(
    machine, *addresses, living=(), node=None, poll=POLL_SECONDS, polling=Polling.ALWAYS, stepped=()
) -> Iterator[NcclRas]:
    one = NcclRas(
        addresses, node, machine.proc, SystemClock(), lambda: living, poll,
        stepped=lambda: stepped, polling=polling,
    )  # fmt: skip
    try:
        yield one
    finally:
        one.close()


def values(one: NcclRas) -> dict[tuple[str, tuple[str, ...]], float]:
    assert one.available()
    return {(s.metric.name, s.labels): s.value for s in collect_ras(one.read())}


def until(true: Callable[[], object]) -> object:
    deadline = time.monotonic() + END
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def monotonic() -> float:
    return time.monotonic()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_server_that_knows_json_is_asked_in_json(serve, end):
    server = serve(Ras(end=end))
    status = ask(server.address, monotonic)

    assert {("running", "incomplete"): 1} == status.kinds
    assert [
        "CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT JSON", "VERBOSE STATUS",
    ] == server.heard  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_old_server_is_asked_in_text(serve, end):
    status = ask(serve(Ras(version=(2, 24), end=end)).address, monotonic)

    assert {("running", "mismatch"): 1} == status.kinds


def http(client: socket.socket) -> None:
    client.recv(1000)
    client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def silent(client: socket.socket) -> None:
    client.recv(1000)
    time.sleep(1.5)


def hangs_up(client: socket.socket) -> None:
    client.recv(1000)


def endless_line(client: socket.socket) -> None:
    while True:
        client.sendall(b"x" * 4096)


def after_greeting(reply: bytes, pause: float = 0.0) -> Speak:
    def speak(client: socket.socket) -> None:
        for answer in (b"SERVER PROTOCOL 2\n", b"OK\n", b"OK\n"):
            client.recv(1000)
            client.sendall(answer)
        client.recv(1000)
        client.sendall(reply)
        time.sleep(pause)

    return speak


def trickle(client: socket.socket) -> None:
    after_greeting(b"{")(client)
    for _ in range(30):
        client.sendall(b" ")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("speak", "reason"),
    [
        (http, "protocol"),
        (silent, "timeout"),
        (hangs_up, "truncated"),
        (endless_line, "protocol"),
        (after_greeting(b""), "truncated"),
        (after_greeting(JSON[:120].encode()), "content"),
        (after_greeting(JSON[:600].encode(), pause=1.5), "timeout"),
        (after_greeting(b"\xff\xfe\x00"), "content"),
        (trickle, "timeout"),
    ],
)
def test_what_is_no_ras_or_half_of_one_is_a_named_error(serve, speak, reason):
    address = serve(Server(speak)).address
    with pytest.raises(SourceError) as error:
        ask(address, monotonic, seconds=0.25)

    assert reason == error.value.reason
    assert str(address) in str(error.value) or reason == "content"


def test_a_document_without_end_is_given_up(serve, monkeypatch):
    monkeypatch.setattr(client, "MAX_BYTES", 100_000)

    def flood(peer: socket.socket) -> None:
        after_greeting(b"{")(peer)
        while True:
            peer.sendall(b" " * 65536)

    with pytest.raises(SourceError, match="exceeds"):
        ask(serve(Server(flood)).address, monotonic)


def test_a_firewall_is_told_from_a_closed_port(monkeypatch):
    def swallowed(*_: object) -> socket.socket:
        raise TimeoutError("timed out")

    monkeypatch.setattr(client.socket, "create_connection", swallowed)
    with pytest.raises(SourceError, match="is there a firewall") as error:
        ask(Address("10.0.0.1", 28028), monotonic)

    assert "timeout" == error.value.reason


def free_port() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1])


def test_where_nothing_listens_the_source_is_absent_and_says_why(machine):
    with source(machine, free_port()) as one:
        assert not one.available()
        assert "nothing listens at 127.0.0.1" in one.why_not()
        assert () == one.read().rejected


def test_an_address_that_a_rank_names_is_asked_and_down_when_nothing_listens(machine, serve):
    server = serve(Ras())
    closed = free_port()
    for pid, address in ((7, server.address), (8, closed)):
        machine.file(machine.proc / str(pid) / "environ", f"A=1\0NCCL_RAS_ADDR={address}\0")
    ranks = [RankProcess("gpt-1", 0, 7), RankProcess("gpt-1", 1, 8)]
    with source(machine, living=ranks) as one:
        found = values(one)

    assert 1 == found[m.NCCL_RAS_UP.name, (str(server.address),)]
    assert 0 == found[m.NCCL_RAS_UP.name, (str(closed),)]


def test_an_address_that_makes_no_sense_is_counted_and_the_rest_works(machine, serve):
    machine.file(machine.proc / "7" / "environ", "NCCL_RAS_ADDR=no port\0")
    with source(machine, serve(Ras()).address, living=[RankProcess("gpt-1", 0, 7)]) as one:
        assert one.available()
        reading = one.read()

    assert ["content"] == [each.reason for each in reading.rejected]
    assert [True] == [each.up for each in reading.endpoints]


def test_the_environment_of_anothers_process_is_no_error(machine, serve):
    ranks = [RankProcess("gpt-1", 0, 7)]
    (machine.proc / "7").mkdir()
    with source(machine, serve(Ras()).address, living=ranks) as one:
        assert one.available()

        assert () == one.read().rejected


def test_more_addresses_than_are_asked_are_counted(machine):
    addresses = [Address("127.0.0.1", port) for port in range(1, MAX_ENDPOINTS + 3)]
    with source(machine, *addresses) as one:
        one.available()
        reading = one.read()

    assert MAX_ENDPOINTS == len(reading.endpoints)
    assert ["too_many"] == [each.reason for each in reading.rejected]


def test_a_run_whose_rank_0_is_here_is_shown_with_its_age_and_its_missing_ranks(machine, serve):
    server = serve(Ras())
    with source(machine, server.address) as one:
        found = values(one)
    group = "ae94423cfbb2ef4a:b7e7187447156001:b8242ed28a71381e"

    assert 1 == found[m.NCCL_COMMUNICATORS.name, ("", "running", "incomplete")]
    assert 2 == found[m.NCCL_COMMUNICATOR_SIZE.name, ("", group)]
    assert 1 == found[m.NCCL_COMMUNICATOR_MISSING.name, ("", group)]
    assert 1 == found[m.NCCL_RANK_STATE.name, ("", group, "1", "unresponsive")]
    assert 0 <= found[m.NCCL_RAS_AGE.name, ("", str(server.address))] < END


def test_a_run_whose_rank_0_is_elsewhere_is_asked_once_and_not_shown(machine, serve):
    server = serve(Ras(document=JSON.replace("172.16.64.245", "192.0.2.1")))
    with source(machine, server.address, poll=QUICK) as one:
        found = values(one)
        time.sleep(0.4)

        assert 1 == server.heard.count("VERBOSE STATUS")
        assert "on another node" in one.why_not()
    assert {m.NCCL_RAS_UP.name} == {name for name, _ in found}
    assert RARELY_SECONDS == 300.0


def test_a_host_name_is_here_as_an_address_is(machine):
    with source(machine, node="node-7") as one:
        here = ("node-7", socket.gethostname(), "127.0.0.1")

        assert [True, True, True] == [one.is_here(host) for host in here]
        assert [False, False] == [one.is_here(host) for host in ("192.0.2.1", "nowhere.invalid")]


def test_events_are_counted_and_go_on_counting(machine, serve):
    server = serve(Ras())
    with source(machine, server.address, poll=QUICK) as one:
        one.available()
        key = m.NCCL_PEER_EVENTS.name, ("", "peer_dead")

        assert until(lambda: values(one).get(key) == 1)
        server.hold.set()  # the server hangs up; the next poll listens again
        assert until(lambda: values(one).get(key, 0) > 1)


def test_a_server_without_events_is_asked_for_them_once(machine, serve):
    server = serve(Ras(version=(2, 28)))
    with source(machine, server.address, poll=QUICK) as one:
        one.available()
        assert until(lambda: server.heard.count("VERBOSE STATUS") > 3)

        assert 1 == server.heard.count("MONITOR LIFECYCLE")
        assert () == one.read().rejected


def test_events_that_are_none_are_counted_and_the_poll_goes_on(machine, serve):
    server = serve(Ras())
    server.events = "no event\n"
    rejected: list[str] = []
    with source(machine, server.address, poll=QUICK) as one:

        def counted() -> bool:
            one.available()
            rejected.extend(each.reason for each in one.read().rejected)
            return bool(rejected)

        assert until(counted)
        assert until(lambda: server.heard.count("VERBOSE STATUS") > 3)
    assert ["content"] == rejected


def test_two_runs_behind_one_port_are_both_shown(serve):
    def run(number: int) -> str:
        tree = json.loads(LOCAL_JSON)
        tree["communicators"][0]["hash"] = f"0x{number}"
        return json.dumps(tree)

    server = serve(Ras(version=(2, 28), document=run(1)))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: True)
    for number in (1, 2, 1):
        server.document = run(number)
        endpoint.turn()

    names = [
        name.partition(":")[0] for seen in endpoint.answers.seen for name in seen.picture.names
    ]
    assert ["2", "1"] == names


def test_a_run_that_ended_leaves_no_stale_value(machine):
    server = Ras()
    with source(machine, server.address, poll=QUICK) as one:
        one.available()
        server.close()

        assert until(lambda: not one.available())
        # What was counted was counted, and stays so.
        assert {m.NCCL_PEER_EVENTS.name} >= {s.metric.name for s in collect_ras(one.read())}


def test_a_server_that_stops_answering_is_down_and_soon_shows_nothing(machine, serve, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.ras.endpoint.QUERY_SECONDS", 0.2)
    server = serve(Ras())
    with source(machine, server.address, poll=QUICK) as one:
        one.available()
        server.speak = silent

        def only_down() -> bool:
            found = values(one)
            found.pop((m.NCCL_PEER_EVENTS.name, ("", "peer_dead")), None)
            return {(m.NCCL_RAS_UP.name, (str(server.address),)): 0} == found

        assert until(only_down)


@pytest.mark.timed
def test_reading_never_waits_for_a_server(machine, serve, monkeypatch):
    monkeypatch.setattr("lockstep.collector.sources.nccl.ras.source.FIRST_ANSWER_SECONDS", 0.1)
    server = serve(Server(silent))
    with source(machine, server.address) as one:
        one.available()
        with slowness() as pace:
            began = time.monotonic()
            for _ in range(50):
                one.available()
                one.read()
            took = time.monotonic() - began

    assert took < 1.0 * pace.factor


def test_a_closed_source_leaves_no_thread(machine, serve):
    server = serve(Ras())
    with source(machine, server.address) as one:
        one.available()
        name = "ras"
        assert name in {thread.name for thread in threading.enumerate()}

    assert until(lambda: name not in {thread.name for thread in threading.enumerate()})


def test_a_socket_that_is_a_folder_is_no_address(machine):
    machine.file(machine.proc / "7" / "environ", f"NCCL_RAS_ADDR={os.sep}tmp\0")
    with source(machine, living=[RankProcess("gpt-1", 0, 7)]) as one:
        assert not one.available()

        assert ["content"] == [each.reason for each in one.read().rejected]


def test_rank_0_of_a_ring_here_makes_even_an_old_server_answer_every_time(machine, serve):
    server = serve(Ras(version=(2, 24)))
    ranks = [RankProcess("gpt-1", 0, 7)]
    endpoint = Endpoint(server.address, SystemClock(), lambda: ranks, lambda host: False)
    endpoint.turn()
    endpoint.turn()

    assert 2 == server.heard.count("VERBOSE STATUS")
    assert [True] == [seen.picture.here for seen in endpoint.answers.seen]


def test_an_old_server_without_rings_is_shown_and_asked_rarely():
    server = Ras(version=(2, 24))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: False)
    endpoint.turn()
    endpoint.turn()

    assert 1 == server.heard.count("VERBOSE STATUS")
    assert 1 == len(endpoint.answers.seen)
    server.close()
    endpoint.turn()
    assert (None, ()) == (endpoint.answers.up, endpoint.answers.seen)


def test_a_run_without_communicators_yet_is_asked_again(serve):
    server = serve(Ras(document='{"communicators": []}'))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: False)
    endpoint.turn()
    endpoint.turn()

    assert 2 == server.heard.count("VERBOSE STATUS")


def test_a_new_run_on_this_node_is_asked_about_at_once(serve):
    server = serve(Ras(document=JSON.replace("172.16.64.245", "192.0.2.1")))
    living: list[RankProcess] = []
    endpoint = Endpoint(server.address, SystemClock(), lambda: living, lambda host: False)
    endpoint.turn()
    living.append(RankProcess("gpt-2", 1, 7))
    endpoint.turn()
    endpoint.turn()

    assert 2 == server.heard.count("VERBOSE STATUS")


def test_rings_that_cannot_be_read_are_counted_and_the_thread_goes_on(serve):
    def broken() -> list[RankProcess]:
        raise SourceError("permission", "/proc: Permission denied")

    endpoint = Endpoint(serve(Ras()).address, SystemClock(), broken, lambda host: True)
    endpoint.turn()

    assert ["permission"] == [each.reason for each in endpoint.rejected()]
    assert endpoint.answers.up is False


def test_a_bug_is_told_and_the_thread_goes_on(serve):
    server = serve(Ras())
    calls = iter(range(100))

    def once() -> list[RankProcess]:
        if next(calls) == 0:
            raise ZeroDivisionError
        return []

    endpoint = Endpoint(server.address, SystemClock(), once, lambda host: True, QUICK)
    endpoint.start()

    assert until(lambda: endpoint.answers.up)
    assert ["internal"] == [each.reason for each in endpoint.rejected()]
    endpoint.stop()


def test_a_run_here_goes_on_when_a_run_of_elsewhere_answers_at_its_port(serve):
    elsewhere = json.loads(JSON.replace("172.16.64.245", "192.0.2.1"))
    elsewhere["communicators"][0]["hash"] = "0x2"
    server = serve(Ras(version=(2, 28)))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: host == "127.0.0.1")
    for document in (LOCAL_JSON, json.dumps(elsewhere), LOCAL_JSON):
        server.document = document
        endpoint.turn()

    assert 3 == server.heard.count("VERBOSE STATUS")
    assert 1 == len(endpoint.answers.seen)


def test_a_server_that_is_asked_rarely_is_up_again_as_soon_as_it_accepts(serve):
    server = serve(Ras(document=JSON.replace("172.16.64.245", "192.0.2.1")))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: False)
    ups = []
    for speak in (server.speak, hangs_up, server.speak):
        server.speak = speak
        endpoint.turn()
        ups.append(endpoint.answers.up)

    assert [True, False, True] == ups
    assert 1 == server.heard.count("VERBOSE STATUS")
    assert "on another node" in endpoint.answers.words


def test_the_environment_is_that_of_the_process_in_our_table(machine, serve, monkeypatch):
    """In a container a rank knows itself by another number, which is another process here."""
    monkeypatch.setattr("lockstep.collector.sources.nccl.ras.source.FIRST_ANSWER_SECONDS", 20.0)
    server = serve(Ras())
    machine.file(machine.proc / "4007" / "environ", f"NCCL_RAS_ADDR={server.address}\0")
    one = NcclRas(
        (), None, machine.proc, SystemClock(), lambda: [RankProcess("gpt-1", 0, 7)],
        processes=lambda: [RankProcess("gpt-1", 0, 4007)], polling=Polling.ALWAYS,
    )  # fmt: skip

    assert one.available()
    assert (True, ()) == (one.read().endpoints[0].up, one.read().rejected)
    one.close()


RANKS = [RankProcess("gpt-1", 0, 7), RankProcess("gpt-1", 1, 8)]
STEPPED = [("gpt-1", 0), ("gpt-1", 1)]


def loaded(machine, pid: int, version: str | None, name: str = "libnccl.so.2") -> None:
    """A process that has a library of NCCL loaded, from a folder of its own container."""
    words = (
        "" if version is None else f"\0NCCL version {version}+cuda12.9 compiled with CUDA 12.9\n"
    )
    machine.file(machine.proc / str(pid) / "root" / "opt" / name, "\x7fELF" + 9000 * "x" + words)
    maps = (
        "7f00-7f01 r-xp 00000000 08:01 9 /usr/lib/libc.so.6\n7f01-7f02 rw-p 00000000 00:00 0 \n"
        f"7f02-7f03 r-xp 00000000 08:01 7 /opt/{name}\n"
    )
    machine.file(machine.proc / str(pid) / "maps", maps)


def asked(machine, server, version="2.28.9", stepped=STEPPED, polling=Polling.GUARDED, ranks=RANKS):
    for rank in ranks:
        if version != "no library":
            loaded(machine, rank.pid, version)
    with source(
        machine, server.address, living=ranks, poll=QUICK, polling=polling, stepped=stepped
    ) as one:
        up = one.available()
        return server.heard.count("VERBOSE STATUS") > 0, up, one.why_not()


def test_a_run_that_has_made_a_step_is_asked(machine, serve):
    was, up, words = asked(machine, serve(Ras()))

    assert (True, True) == (was, up)
    assert "communicators of NCCL 2.29.1" in words


@pytest.mark.parametrize(
    ("version", "stepped", "polling", "ranks", "why"),
    [
        ("2.28.9", [("gpt-1", 0)], "guarded", RANKS, "rank 1 of gpt-1 has not made its first step"),
        ("2.28.9", [], "guarded", [], "no rank of this node reports its steps"),
        ("2.26.2", STEPPED, "guarded", RANKS, "2.26.2 has crashed when asked"),
        ("2.26.5", STEPPED, "guarded", RANKS, "(NVIDIA/nccl issue 1669, 1718)"),
        ("2.27.7", STEPPED, "guarded", RANKS, "(NVIDIA/nccl issue 1762)"),
        ("2.29.7", STEPPED, "guarded", RANKS, "(NVIDIA/nccl issue 2346)"),
        (None, STEPPED, "guarded", RANKS, "its library reports no version"),
        ("no library", STEPPED, "guarded", RANKS, "is unknown: "),
        ("2.28.9", STEPPED, "never", RANKS, "not asked, as nccl.ras_polling is never"),
    ],
)  # fmt: skip
def test_a_run_that_a_question_may_crash_is_not_even_connected_to(
    machine, serve, version, stepped, polling, ranks, why
):
    server = serve(Ras())
    was, up, words = asked(machine, server, version, stepped, Polling(polling), ranks)

    assert (False, False) == (was, up)
    assert why in words
    assert [] == server.heard


def test_who_asks_always_asks_a_version_that_is_known_to_crash(machine, serve):
    was, up, _ = asked(machine, serve(Ras()), "2.26.2", [], Polling.ALWAYS)

    assert (True, True) == (was, up)


def test_a_rank_that_names_the_address_is_not_called_down_while_it_is_not_asked(machine, serve):
    server = serve(Ras())
    machine.file(machine.proc / "7" / "environ", f"NCCL_RAS_ADDR={server.address}\0")
    with source(machine, living=RANKS[:1], polling=Polling.GUARDED) as one:
        assert not one.available()
        assert [None] == [each.up for each in one.read().endpoints]


def test_a_rank_that_starts_beside_a_run_stops_the_questions(machine, serve):
    server = serve(Ras())
    ranks, stepped = list(RANKS[:1]), list(STEPPED)
    loaded(machine, 7, "2.28.9")
    with source(
        machine, server.address, living=ranks, poll=QUICK, stepped=stepped, polling=Polling.GUARDED
    ) as one:
        assert one.available()
        ranks.append(RankProcess("gpt-2", 0, 9))

        assert until(lambda: not one.available() and "gpt-2" in one.why_not())
        heard = len(server.heard)
        time.sleep(5 * QUICK)
        assert heard == len(server.heard)


def test_there_is_one_connection_at_a_time(serve):
    """The stream of events ends before a question, and is opened again behind it."""
    at_once: list[int] = []
    open_now: set[object] = set()
    server = Ras()
    answer = server.answer

    def counted(client: socket.socket) -> None:
        open_now.add(client)
        at_once.append(len(open_now))
        try:
            answer(client)
        finally:
            open_now.discard(client)

    server.speak = counted
    server.hold.set()
    serve(server)
    why_not: list[str | None] = [None, None, None, None, "enough"]
    endpoint = Endpoint(
        server.address, SystemClock(), list, lambda host: True, held=lambda: why_not.pop(0)
    )
    while why_not:
        endpoint.turn()
        time.sleep(0.05)

    assert 4 == server.heard.count("VERBOSE STATUS")
    assert 1 == max(at_once)


def test_after_each_failure_it_is_asked_half_as_often(serve):
    server = serve(Ras(version=(2, 28)))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: True)
    good, server.speak = server.speak, hangs_up
    pauses = []
    for _ in range(7):
        endpoint.turn()
        pauses.append(endpoint.pause)
    server.speak = good
    endpoint.turn()

    assert [20, 40, 80, 160, 300, 300, 300] == pauses
    assert POLL_SECONDS == endpoint.pause


def test_what_is_left_out_of_an_answer_is_counted(serve):
    broken = LOCAL_JSON.replace('"init_state": 0', '"init_state": nul')
    server = serve(Ras(version=(2, 28), document=broken))
    endpoint = Endpoint(server.address, SystemClock(), list, lambda host: True)
    endpoint.turn()

    assert {"not_understood"} == {each.reason for each in endpoint.rejected()}
    assert endpoint.answers.up


def test_the_table_of_versions_names_its_sources():
    for one in DEFECTS:
        assert one.first < one.fixed
        assert one.source.endswith(f"/nccl/issues/{one.issue}")
        assert one.said
        assert one.until
    assert [(2, 24, 3), (2, 28, 9), (2, 29, 3), (2, 30, 7)] == [
        version
        for version in ((2, 24, 3), (2, 26, 6), (2, 27, 5), (2, 28, 9), (2, 29, 3), (2, 30, 7))
        if not defects(version)
    ]


def test_the_documentation_names_every_version_that_is_not_asked_and_its_source():
    page = (Path(__file__).parents[4] / "docs/sre/collector.md").read_text()

    for one in DEFECTS:
        assert f"[issue {one.issue}]({one.source})" in page
        assert ".".join(map(str, one.first)) in page

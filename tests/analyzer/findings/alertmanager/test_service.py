"""Several Alertmanagers behind one name: each is told of everything, whoever comes and goes."""

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from lockstep.analyzer.findings.alertmanager import service
from lockstep.analyzer.findings.alertmanager.service import Service, addresses_of
from lockstep.analyzer.read.prometheus.access import access

PATIENCE_SECONDS = 30.0


@pytest.fixture
def pods(server) -> Callable[..., list]:
    """Servers at addresses of the loopback's network, all on one port, as pods of one Service."""

    def make(count: int) -> list:
        first = server()
        port = int(first.url.rpartition(":")[2])
        return [first, *(server(f"127.0.0.{2 + number}", port) for number in range(count - 1))]

    return make


SECRET = {"LOCKSTEP_ALERTMANAGER_TOKEN": "a-token"}


@pytest.fixture
def of(clock) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(url: str, resolve=lambda _: (), **environment: str) -> Service:
        to = access(url, environment, "alertmanager")
        made.append(Service(to, clock.unix, clock.monotonic, resolve))
        return made[-1]

    yield make
    for each in made:
        each.end()


def url(pods: list) -> str:
    return pods[0].url.replace("127.0.0.1", "localhost")


def work(one: Service) -> None:
    for replica in one.replicas:
        replica.work()


def told(pod) -> set[str]:
    return {alert["labels"]["node"] for body in pod.bodies for alert in body}


def test_every_replica_behind_the_name_is_told(pods, of, alert) -> None:
    three = pods(3)
    one = of(url(three))
    one.lead_to(["127.0.0.1", "127.0.0.2", "127.0.0.3"])
    one.want([alert("node-1")])
    work(one)

    assert [{"node-1"}] * 3 == [told(pod) for pod in three]
    assert 3 == one.counts["delivered"]
    host = url(three).removeprefix("http://")
    assert {host} == {header["Host"] for pod in three for header in pod.headers}


def test_a_replica_that_comes_later_is_told_of_what_fires(pods, of, alert) -> None:
    two = pods(2)
    one = of(url(two))
    one.want([alert("node-1")])
    work(one)
    one.lead_to(["127.0.0.1", "127.0.0.2"])
    work(one)

    assert [{"node-1"}] * 2 == [told(pod) for pod in two]


def test_a_replica_that_is_replaced_is_told_of_what_the_one_before_missed(pods, of, alert) -> None:
    two = pods(2)
    one = of(url(two))
    one.want([alert("node-1")])
    one.lead_to(["127.0.0.1", "127.0.0.9"])
    work(one)
    one.want([])
    failed = one.counts["unreachable"]
    one.lead_to(["127.0.0.1", "127.0.0.2"])
    for replica in one.replicas:
        replica._outbox._not_before = float("-inf")
    work(one)

    assert 1 == failed
    assert {"node-1"} == told(two[1])


def later(clock, seconds: float, *them) -> None:
    """The clocks of the servers go on with ours."""
    clock.now += seconds
    for pod in them:
        pod.clock = clock.unix()


def ends(pod, clock) -> list[bool]:
    """Of every alert that it was told, whether it is over."""
    now = datetime.fromtimestamp(clock.unix(), UTC).isoformat(timespec="milliseconds")
    return [alert["endsAt"] <= now for body in pod.bodies for alert in body]


@pytest.mark.parametrize("away", [1, 2])
def test_a_replica_that_leaves_the_name_for_a_moment_hears_of_the_end(
    pods, of, alert, clock, away
) -> None:
    """Whichever of the two stays alone in the name meanwhile."""
    two, addresses = pods(2), ["127.0.0.1", "127.0.0.2"]
    one = of(url(two))
    one.lead_to(addresses)
    one.want([alert("node-1")])
    work(one)
    one.lead_to([f"127.0.0.{3 - away}"])
    later(clock, 120, *two)
    one.want([])
    work(one)
    one.lead_to(addresses)
    later(clock, 120, *two)
    work(one)

    assert [[False, True]] * 2 == [ends(pod, clock) for pod in two]


@pytest.mark.parametrize(("secret", "minutes"), [({}, 60), (SECRET, 5)])
def test_who_left_the_name_is_told_as_long_as_it_answers_and_its_alerts_stand(
    pods, of, alert, clock, secret, minutes
) -> None:
    two = pods(2)
    one = of(url(two), **secret)
    one.lead_to(["127.0.0.1", "127.0.0.2"])
    one.want([alert("node-1")])
    for _ in range(80):
        work(one)
        later(clock, 60, *two)
        one.lead_to(["127.0.0.1"])

    assert 80 == len(two[0].bodies)
    # An hour: FIRING_SECONDS after it left, its last alert would have lapsed. Where whoever has its
    # address now would be told how to get in, it is soon left alone.
    assert minutes <= len(two[1].bodies) <= minutes + 1


def test_who_left_the_name_and_is_silent_is_let_go_and_counts_as_no_failure(
    pods, of, alert, clock
) -> None:
    one = of(url(pods(1)))
    one.lead_to(["127.0.0.1", "127.0.0.9"])
    one.want([alert("node-1")])
    work(one)
    clock.now += 200
    work(one)
    missing = one.undelivered()
    one.lead_to(["127.0.0.1"])
    left, kept = one.undelivered(), len(one.replicas)
    clock.now += 299
    one.lead_to(["127.0.0.1"])
    before = len(one.replicas)
    clock.now += 1
    one.lead_to(["127.0.0.1"])

    assert (1, 0, 2, 2, 1) == (missing, left, kept, before, len(one.replicas))


def test_a_name_that_leads_to_others_all_the_time_is_no_crowd(pods, of, alert, clock) -> None:
    one = of(url(pods(1)))
    for number in range(100):
        one.lead_to(["127.0.0.1", f"127.0.1.{number}"])

    assert 2 + service.MOST_REPLICAS >= len(one.replicas)


def test_the_counts_of_one_that_is_gone_stay(pods, of, alert, clock) -> None:
    two = pods(2)
    one = of(url(two))
    one.lead_to(["127.0.0.1", "127.0.0.2"])
    one.want([alert("node-1")])
    work(one)
    one.lead_to(["127.0.0.1"])
    clock.now += 4000
    one.lead_to(["127.0.0.1"])

    assert 2 == one.counts["delivered"]
    assert ["127.0.0.1"] == [replica.address for replica in one.replicas]


def test_while_it_serves_the_name_is_looked_up_again(pods, of, alert, monkeypatch) -> None:
    monkeypatch.setattr(service, "RESOLVE_SECONDS", 0.05)
    two, answers = pods(2), [("127.0.0.1", "127.0.0.2")]

    def resolve(_: str) -> tuple[str, ...]:
        if len(answers) < 3:
            answers.append(())
            raise socket.gaierror
        return answers[0]

    one = of(url(two), resolve)
    one.want([alert("node-1")])
    one.start()

    assert all(pod.came.acquire(timeout=PATIENCE_SECONDS) for pod in two)


@pytest.mark.parametrize(
    ("found", "addresses"),
    [
        (["10.0.0.2", "10.0.0.1", "10.0.0.1"], ("10.0.0.1", "10.0.0.2")),
        (["10.0.0.1"], ("10.0.0.1",)),
        (["127.0.0.1", "::1"], ("127.0.0.1",)),
        (["fd00::1", "fd00::2"], ("fd00::1", "fd00::2")),
        (["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"], ("10.0.0.1", "10.0.0.2")),
        ([f"10.0.0.{number}" for number in range(10, 60)],
         tuple(f"10.0.0.{number}" for number in range(10, 26))),
    ],
)  # fmt: skip
def test_of_a_name_those_of_one_family_count(found, addresses, monkeypatch) -> None:
    def resolved(host: str, port: int, **_: object) -> list:
        assert ("alertmanager", 9093) == (host, port)
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "",
             (each, port))
            for each in found
        ]  # fmt: skip

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    assert addresses == addresses_of("http://alertmanager:9093/prefix")


def test_no_thread_is_left_once_it_ended(of) -> None:
    one = of("http://127.0.0.1:9")
    one.start()
    mine = [each for each in threading.enumerate() if each.name in ("addresses", "alertmanager")]
    one.end()
    for each in mine:
        each.join(PATIENCE_SECONDS)

    assert mine
    assert not any(each.is_alive() for each in mine)

"""Who sees the pages: TLS and users by a web config file, over real connections."""

import base64
import contextlib
import http.client
import shutil
import socket
import ssl
import subprocess
import threading
import time

import bcrypt
import pytest

from lockstep.collector.clock import SystemClock
from lockstep.collector.config import Address, ConfigError
from lockstep.collector.exporter.exporter import Exporter
from lockstep.collector.exporter.server import Pages, PageServer
from lockstep.collector.exporter.web_auth import MAX_REMEMBERED, Guard, WebAuth
from lockstep.collector.exporter.web_config import load_web_config
from lockstep.collector.registry import feeds
from lockstep.collector.sampler.sampler import Sampler

# A salt of our own: every process that collects these tests has to find the same ones.
HASH = bcrypt.hashpw(b"secret", b"$2b$04$abcdefghijklmnopqrstuu").decode()
PATHS = ("/metrics", "/ops?run=a", "/healthz", "/readyz", "/nothing")


@pytest.fixture
def web(tmp_path):
    def write(text: str):
        path = tmp_path / "web.yml"
        path.write_text(text)
        return path

    return write


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A server's and a client's certificate, each its own authority."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificates")
    for name in ("server", "client"):
        subprocess.run(
            [
                *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
                *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
                *("-addext", "subjectAltName=IP:127.0.0.1"),
                *("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem"),
            ],
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture
def serve(machine):
    machine.host()
    running = []

    def start(web_config_file):
        clock = SystemClock()
        config = machine.config(listen=Address("127.0.0.1", 0), web_config_file=web_config_file)
        sampler = Sampler(feeds(config, clock), clock, config.ttl)
        server = Exporter(config, sampler, clock).serve()
        running.append((server, sampler))
        sampler.start()
        server.start()
        sampler.wait_ready()
        return server.address

    yield start
    for server, sampler in running:
        server.stop()
        sampler.stop()


def ask(address, path="/metrics", context=None, user=None):
    if context is None:
        connection = http.client.HTTPConnection(*address, timeout=10)
    else:
        connection = http.client.HTTPSConnection(*address, timeout=10, context=context)
    headers = {}
    if user is not None:
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a", "the file must be keys with values"),
        ("a: [", "is not YAML: while parsing"),
        ("\0", "is not YAML"),
        ("tls_config: {}", "unknown or unsupported key tls_config in the file; did you mean tls_s"),
        ("tls_server_config: {cert_fil: a}", "did you mean cert_file?"),
        ("tls_server_config: {cert_file: a}", "tls_server_config has no key_file"),
        ("tls_server_config: {cert_file: 1, key_file: b}", "cert_file is 1; it must be text"),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequestClientCert}",
            "client_auth_type RequestClientCert is not possible here; did you mean ",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_ca_file: c}",
            "client_ca_file and client_auth_type NoClientCert do not go together",
        ),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}",
            "min_version is TLS10; it must be TLS12 or TLS13",
        ),
        ("basic_auth_users: {bob: secret}", "the password of bob is not a bcrypt hash"),
        ("basic_auth_users: [bob]", "basic_auth_users must be names with bcrypt hashes"),
        (f'basic_auth_users: {{"a:b": "{HASH}"}}', "'a:b' cannot be the name of a user"),
        ("http_server_config: {headers: {}}", "unknown or unsupported key headers"),
    ],
)
def test_a_wrong_web_config_is_one_sentence_that_names_it(web, text, sentence):
    with pytest.raises(ConfigError) as caught:
        load_web_config(web(text))

    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_yaml_that_would_build_an_object_is_refused(web):
    with pytest.raises(ConfigError, match="is not YAML"):
        load_web_config(web("!!python/object/apply:os.system ['true']"))


def test_paths_are_relative_to_the_file(web, tmp_path):
    file = web("tls_server_config: {cert_file: a.pem, key_file: /k.pem}\nhttp_server_config: {}")

    tls = load_web_config(file).tls
    assert (str(tmp_path / "a.pem"), "/k.pem") == (str(tls.cert_file), str(tls.key_file))


def test_an_empty_file_protects_nothing(web, serve):
    assert 200 == ask(serve(web("")))[0]


@pytest.mark.parametrize("broken", ["missing", "empty", "wrong"])
def test_an_unreadable_certificate_is_named(web, serve, tmp_path, certificates, broken):
    paths = {"missing": "gone.pem", "empty": "empty.pem", "wrong": f"{certificates}/client.key"}
    (tmp_path / "empty.pem").write_text("")
    file = web(
        f"tls_server_config: {{cert_file: {paths[broken]}, key_file: {certificates}/server.key}}"
    )

    with pytest.raises(ConfigError, match=paths[broken]):
        serve(file)


def test_every_page_is_behind_tls(web, serve, certificates, caplog):
    where = f"cert_file: {certificates}/server.pem, key_file: {certificates}/server.key"
    address = serve(web(f"tls_server_config: {{{where}}}"))
    context = ssl.create_default_context(cafile=certificates / "server.pem")

    assert [200, 404, 200, 200, 404] == [ask(address, path, context)[0] for path in PATHS]
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(address)
    assert [] == [record for record in caplog.records if record.exc_info]


def test_a_client_without_certificate_is_refused_where_one_is_needed(web, serve, certificates):
    address = serve(
        web(
            f"tls_server_config: {{cert_file: {certificates}/server.pem,"
            f" key_file: {certificates}/server.key, client_ca_file: {certificates}/client.pem,"
            " client_auth_type: RequireAndVerifyClientCert, min_version: TLS13}"
        )
    )
    stranger = ssl.create_default_context(cafile=certificates / "server.pem")
    known = ssl.create_default_context(cafile=certificates / "server.pem")
    known.load_cert_chain(certificates / "client.pem", certificates / "client.key")

    assert 200 == ask(address, context=known)[0]
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(address, context=stranger)


def test_a_client_that_never_shakes_hands_delays_nobody(web, serve, certificates):
    where = f"cert_file: {certificates}/server.pem, key_file: {certificates}/server.key"
    address = serve(web(f"tls_server_config: {{{where}}}"))
    context = ssl.create_default_context(cafile=certificates / "server.pem")
    with socket.create_connection(address):
        began = time.monotonic()
        assert 200 == ask(address, context=context)[0]
        assert time.monotonic() - began < 5


@pytest.fixture
def protected(web, tmp_path, certificates):
    """A protection by copies of the server's certificate, and what a client is shown."""
    for name in ("pem", "key"):
        shutil.copy(certificates / f"server.{name}", tmp_path / f"a.{name}")
    file = web("tls_server_config: {cert_file: a.pem, key_file: a.key}")
    return file, WebAuth(file)


def shown(protection: WebAuth, *chain) -> bytes | None:
    """The certificate that a client sees; None when the client is refused."""
    ours, theirs = socket.socketpair()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if chain:
        context.load_cert_chain(*chain)

    def serve() -> None:
        with contextlib.suppress(OSError), protection.wrap(ours) as connection:
            connection.sendall(b"welcome")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context.wrap_socket(theirs) as client:
            # TLS 1.3 refuses a client only after the client's part of the handshake.
            return client.getpeercert(binary_form=True) if client.recv(7) == b"welcome" else None
    except OSError:
        return None
    finally:
        thread.join()
        ours.close()


def test_a_renewed_certificate_serves_the_next_connection(
    protected, tmp_path, certificates, caplog
):
    _, protection = protected

    first = shown(protection)
    for name in ("pem", "key"):
        shutil.copy(certificates / f"client.{name}", tmp_path / f"a.{name}")
    second = shown(protection)
    (tmp_path / "a.pem").write_text("torn")
    third = [shown(protection) for _ in range(3)]

    assert None not in (first, second)
    assert first != second
    assert [second] * 3 == third
    assert 1 == caplog.text.count("are not a certificate and its key")
    assert 1 == caplog.text.count("what held before still holds")


def test_a_change_of_who_may_be_a_client_counts_for_the_next_connection(
    protected, certificates, caplog
):
    file, protection = protected
    client = (certificates / "client.pem", certificates / "client.key")
    asks = "client_auth_type: RequireAndVerifyClientCert, client_ca_file: "

    assert None is not shown(protection)
    file.write_text(file.read_text().replace("}", f", {asks}{certificates}/client.pem}}"))
    assert (None, True) == (shown(protection), shown(protection, *client) is not None)
    file.write_text(file.read_text().replace("client.pem", "server.pem"))
    assert None is shown(protection, *client)
    file.write_text(file.read_text().replace("server.pem", "nowhere.pem"))
    assert None is shown(protection, *client)
    assert "cannot read the certificate file" in caplog.text


def test_tls_does_not_come_or_go_without_a_restart(protected, web, caplog):
    file, protection = protected
    file.write_text("")
    assert None is not shown(protection)

    plain = web("basic_auth_users: {}")
    protection = WebAuth(plain)
    plain.write_text("tls_server_config: {cert_file: a.pem, key_file: a.key}")
    assert ("http", True) == (protection.scheme, protection.allows(None))
    assert 2 == caplog.text.count("TLS comes and goes with a restart only")


def test_the_address_says_whether_the_pages_are_behind_tls(protected, web):
    pages = Pages(lambda *_: b"", str, lambda _: None)
    urls = []
    for protection in (protected[1], WebAuth(None)):
        server = PageServer(Address("127.0.0.1", 0), pages, protection)
        urls.append(server.url.replace(str(server.address), "HERE"))
        server.server_close()

    assert ["https://HERE/metrics", "http://HERE/metrics"] == urls


def test_users_count_at_once_and_a_broken_file_keeps_those_of_before(web, serve, caplog):
    file = web(f"basic_auth_users: {{bob: '{HASH}'}}")
    address = serve(file)

    def statuses() -> list[int]:
        users = (None, "bob:secret", "eve:secret")
        return [ask(address, user=user)[0] for user in users]

    assert [401, 200, 401] == statuses()
    file.write_text(f"basic_auth_users: {{eve: '{HASH}'}}")
    assert [401, 401, 200] == statuses()
    for broken in ("basic_auth_users: {eve: secret}", "", None):
        if broken is None:
            file.unlink()
        else:
            file.write_text(broken)
        assert [401, 401, 200] == statuses()
    file.write_text(f"basic_auth_users: {{bob: '{HASH}'}}")
    assert [401, 200, 401] == statuses()

    told = [one.getMessage() for one in caplog.records if "still holds" in one.getMessage()]
    assert ["not a bcrypt hash", "no users any more", "cannot read"] == [
        next(words for words in ("not a bcrypt hash", "no users any more", "cannot read")
             if words in sentence)
        for sentence in told
    ]  # fmt: skip


def test_every_page_needs_the_user(web, serve):
    address = serve(web(f"basic_auth_users: {{bob: '{HASH}'}}"))

    for user in (None, "bob:wrong", "eve:secret", "bob", "bob:" + "x" * 100, ":"):
        answers = [ask(address, path, user=user) for path in PATHS]
        assert [401] * len(PATHS) == [status for status, _, _ in answers]
        assert 'Basic realm="lockstep"' == answers[0][2]["WWW-Authenticate"]
        assert b"lockstep_" not in answers[0][1]
    assert [200, 404, 200, 200, 404] == [ask(address, path, user="bob:secret")[0] for path in PATHS]


@pytest.mark.parametrize("header", [None, "", "Basic", "Basic !", "Bearer x", "Basic ZQ==\xff"])
def test_a_header_that_says_nothing_is_refused(header):
    assert not Guard({"bob": HASH}).allows(header)


def header(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.fixture
def asked(monkeypatch):
    """A guard of one user, and what it asks bcrypt."""
    guard = Guard({"bob": HASH})
    original, words = guard._check, []
    monkeypatch.setattr(
        guard, "_check", lambda word, hashed: words.append(word) or original(word, hashed)
    )
    return guard, words


def test_bcrypt_is_asked_once_for_the_same_word(asked):
    guard, words = asked
    for _ in range(5):
        assert guard.allows(header("bob:secret"))
        assert not guard.allows(header("bob:wrong"))

    assert [b"secret", b"wrong"] == words


def test_guesses_do_not_push_out_who_was_let_in(asked):
    guard, words = asked
    assert guard.allows(header("bob:secret"))
    for number in range(MAX_REMEMBERED + 10):
        assert not guard.allows(header(f"bob:{number}"))
    assert guard.allows(header("bob:secret"))

    assert 1 == words.count(b"secret")
    assert (1, MAX_REMEMBERED) == (len(guard._right), len(guard._wrong))


def test_an_unknown_user_costs_as_much_as_the_dearest_known_one(monkeypatch):
    dear = bcrypt.hashpw(b"secret", bcrypt.gensalt(6)).decode()
    guard = Guard({"bob": HASH, "ann": dear, "joe": HASH})
    words = []
    monkeypatch.setattr(guard, "_check", lambda *each: words.append(each) or True)

    assert not guard.allows(header("eve:secret"))
    assert [(b"secret", dear.encode())] == words


@pytest.mark.timed
def test_a_flood_of_guesses_delays_nobody_who_was_let_in():
    guard = Guard({"bob": bcrypt.hashpw(b"secret", bcrypt.gensalt(9)).decode()})
    began = time.perf_counter()
    assert guard.allows(header("bob:secret"))
    check = time.perf_counter() - began
    over = threading.Event()

    def guess(who: int) -> None:
        number = 0
        while not over.is_set():
            guard.allows(header(f"bob:{who}-{number}"))
            number += 1

    threads = [threading.Thread(target=guess, args=(who,)) for who in range(20)]
    for thread in threads:
        thread.start()
    times = []
    for _ in range(20):
        began = time.perf_counter()
        assert guard.allows(header("bob:secret"))
        times.append(time.perf_counter() - began)
        time.sleep(0.01)
    over.set()
    for thread in threads:
        thread.join()

    # Behind the flood it would take up to twenty checks, on a busy machine longer ones.
    assert sorted(times)[10] < 5 * check

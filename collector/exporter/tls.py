"""TLS of the server: its certificate, renewed in place, and what it asks of clients."""

import logging
import socket
import ssl
import threading

from collector.config import ConfigError
from collector.exporter.web_config import TlsConfig

LOG = logging.getLogger(__name__)

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


class Tls:
    """Wraps connections; a certificate that was renewed on disk serves the next one.

    Raises:
        ConfigError: A certificate or key cannot be read; the message names the file.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = _VERSIONS[config.min_version]
        self._context.maximum_version = _VERSIONS[config.max_version]
        self._context.verify_mode = _CLIENTS[config.client_auth_type]
        self._loaded = self._stamps()
        self._load()
        if config.client_ca_file is not None:
            try:
                self._context.load_verify_locations(config.client_ca_file)
            except OSError as error:
                raise ConfigError(_unreadable(config.client_ca_file, error)) from error

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """The connection after its handshake, which keeps to the connection's time-out.

        Raises:
            OSError: The handshake failed; the connection is closed.
        """
        with self._lock:
            stamps = self._stamps()
            if stamps != self._loaded:
                self._loaded = stamps
                try:
                    self._load()
                except ConfigError as error:
                    LOG.warning("%s; the certificate of before is still shown", error)
        return self._context.wrap_socket(connection, server_side=True)

    def _load(self) -> None:
        config = self._config
        for path in (config.cert_file, config.key_file):
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigError(_unreadable(path, error)) from error
        try:
            # The empty password: OpenSSL would otherwise ask for one on the terminal.
            self._context.load_cert_chain(config.cert_file, config.key_file, password="")
        except OSError as error:
            raise ConfigError(
                f"{config.cert_file} and {config.key_file} are not a certificate and its key"
                f" in PEM: {error.strerror or error}"
            ) from error

    def _stamps(self) -> tuple[int, ...]:
        """When each file was written; 0 for one that is not there."""
        stamps = []
        for path in (self._config.cert_file, self._config.key_file):
            try:
                stamps.append(path.stat().st_mtime_ns)
            except OSError:
                stamps.append(0)
        return tuple(stamps)


def _unreadable(path: object, error: OSError) -> str:
    return f"cannot read the certificate file {path}: {error.strerror or error}"

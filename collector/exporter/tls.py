"""TLS of the server: its certificate and what it asks of clients."""

import ssl

from lockstep.collector.config import ConfigError
from lockstep.collector.exporter.web_config import TlsConfig

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """What connections are wrapped with.

    Raises:
        ConfigError: A certificate or key cannot be read; the message names the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.verify_mode = _CLIENTS[config.client_auth_type]
    for path in config.files:
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read the certificate file {path}: {error.strerror}"
            ) from error
    try:
        # The empty password: OpenSSL would otherwise ask for one on the terminal.
        context.load_cert_chain(config.cert_file, config.key_file, password="")
    except OSError as error:
        raise ConfigError(
            f"{config.cert_file} and {config.key_file} are not a certificate and its key"
            f" in PEM: {error.strerror or error}"
        ) from error
    if config.client_ca_file is not None:
        try:
            context.load_verify_locations(config.client_ca_file)
        except OSError as error:
            raise ConfigError(
                f"{config.client_ca_file} holds no certificates in PEM: {error.strerror or error}"
            ) from error
    return context

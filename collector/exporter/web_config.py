"""The web config file: TLS and users, in the format of Prometheus' exporter toolkit.

https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockstep.collector.config import ConfigError, ConfigFileError, nearest

CLIENT_AUTH = ("NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
VERSIONS = ("TLS12", "TLS13")
LIMIT = 1 << 20

_TOP = ("tls_server_config", "http_server_config", "basic_auth_users")
_TLS = ("cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version", "max_version")
_FILES = ("cert_file", "key_file", "client_ca_file")
_BCRYPT = re.compile(r"\$2[aby]\$(0[4-9]|1[0-9]|2[0-9]|3[01])\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """What the server shows and what it asks of clients; `client_auth` is one of CLIENT_AUTH."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    client_auth_type: str = "NoClientCert"
    min_version: str = "TLS12"
    max_version: str = "TLS13"

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that it names."""
        ca = () if self.client_ca_file is None else (self.client_ca_file,)
        return (self.cert_file, self.key_file, *ca)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """How the pages are protected; users' passwords are bcrypt hashes."""

    tls: TlsConfig | None = None
    users: Mapping[str, str] = field(default_factory=dict)


def load_web_config(file: Path) -> WebConfig:
    """Read the file; an empty one protects nothing, as in the toolkit.

    Raises:
        ConfigError: It cannot be read, or a key or a value is wrong.
    """
    try:
        import yaml
    except ImportError as error:
        raise ConfigError("a web config file needs PyYAML: pip install pyyaml") from error
    try:
        with file.open("rb") as stream:
            tree = yaml.safe_load(stream.read(LIMIT))
    except OSError as error:
        raise ConfigFileError(f"cannot read {file}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = " ".join(str(error).split())
        raise ConfigFileError(f"{file} is not YAML: {where}") from error
    top = _table(file, "the file", {} if tree is None else tree, _TOP)
    http = _table(file, "http_server_config", top.get("http_server_config") or {}, ("http2",))
    if http.get("http2", True) not in (True, False):
        raise ConfigError(f"{file}: http2 must be true or false")
    return WebConfig(
        _tls(file, top["tls_server_config"]) if top.get("tls_server_config") else None,
        _users(file, top.get("basic_auth_users") or {}),
    )


def _tls(file: Path, tree: Any) -> TlsConfig:
    table = _table(file, "tls_server_config", tree, _TLS)
    for key, value in table.items():
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{file}: {key} is {value!r}; it must be text")
    for key in ("cert_file", "key_file"):
        if key not in table:
            raise ConfigError(f"{file}: tls_server_config has no {key}")
    asks = table.get("client_auth_type", "NoClientCert")
    if asks not in CLIENT_AUTH:
        raise ConfigError(
            f"{file}: client_auth_type {asks} is not possible here; {nearest(asks, [*CLIENT_AUTH])}"
        )
    if (asks == "NoClientCert") != ("client_ca_file" not in table):
        raise ConfigError(f"{file}: client_ca_file and client_auth_type {asks} do not go together")
    for key in ("min_version", "max_version"):
        if table.get(key, "TLS12") not in VERSIONS:
            raise ConfigError(f"{file}: {key} is {table[key]}; it must be {' or '.join(VERSIONS)}")
    # Relative to the file, as in the toolkit.
    paths = {key: file.parent / table[key] for key in _FILES if key in table}
    return TlsConfig(**(table | paths))


def _users(file: Path, tree: Any) -> dict[str, str]:
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: basic_auth_users must be names with bcrypt hashes")
    for name, hashed in tree.items():
        if not isinstance(name, str) or not name or ":" in name:
            raise ConfigError(f"{file}: {name!r} cannot be the name of a user")
        # The value is not shown: it may be a password that was not hashed.
        if not isinstance(hashed, str) or not _BCRYPT.fullmatch(hashed):
            raise ConfigError(
                f"{file}: the password of {name} is not a bcrypt hash; make one with htpasswd -nB"
            )
    return dict(tree)


def _table(file: Path, section: str, tree: Any, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: {section} must be keys with values")
    for key in tree:
        if key not in known:
            raise ConfigError(
                f"{file}: unknown or unsupported key {key} in {section};"
                f" {nearest(str(key), [*known])}"
            )
    return tree

"""``--tls-cert``, ``--tls-key``, ``--tls-ca`` and ``--token-file`` into what servers and clients need of them."""

from __future__ import annotations

from pathlib import Path

from elaunch.cli.meeting import Meeting
from elaunch.cli.parser import Values
from elaunch.controller.access import Security, Tokens, read_token_file
from elaunch.rendezvous.tls import Tls


def resolve_security(values: Values) -> Security:
    """Raises UsageError where a file is missing, open to other users, or does not fit the others."""
    return Security(_tls(values), _tokens(values))


def open_etcd(security: Security, meeting: Meeting, max_nodes: int) -> tuple[str, ...]:
    """A warning where tokens were given, and the job's own etcd lets everybody in all the same."""
    embedded = meeting.backend != "etcd" and not meeting.standalone and max_nodes > 1
    closed = security.tls is not None and security.tls.ca is not None
    if security.tokens is None or not embedded or closed:
        return ()
    return (
        "the tokens close the control servers; the embedded etcd of this job lets in whoever reaches its port: close it"
        " with --tls-cert, --tls-key and --tls-ca, or use an etcd of your own",
    )


def _tls(values: Values) -> Tls | None:
    cert, key, ca = (values[name] or None for name in ("tls_cert", "tls_key", "tls_ca"))
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        given = next(name for name in ("tls_cert", "tls_key", "tls_ca") if values[name])
        raise values.error(given, "--tls-cert and --tls-key are both needed: any agent may come to serve the others")
    tls = Tls(Path(cert).absolute(), Path(key).absolute(), Path(ca).absolute() if ca else None)

    from elaunch.rendezvous.handshake import check  # OpenSSL takes its time to load

    check(tls)
    return tls


def _tokens(values: Values) -> Tokens | None:
    path: str | None = values["token_file"]
    return read_token_file(path) if path else None

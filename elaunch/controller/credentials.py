"""A job's certificate as gRPC wants it, at either end."""

from __future__ import annotations

from typing import Any

import grpc
import structlog

from elaunch.errors import UsageError
from elaunch.rendezvous.tls import NAME, Tls

CLIENT_OPTIONS = (("grpc.ssl_target_name_override", NAME),)  # nodes are addressed by IP; one certificate is for all


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Read again with every connection: a certificate that was renewed counts from the next one on.

    Raises UsageError where a file cannot be read.
    """
    return _Files(tls).credentials()


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Raises UsageError where a file cannot be read."""
    key, cert, ca = _read(tls)
    shown = (key, cert) if tls.ca is not None else (None, None)
    return grpc.ssl_channel_credentials(ca, *shown)


class _Files:
    """What stood in the files when they were last read."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._last = _read(tls)

    def credentials(self) -> grpc.ServerCredentials:
        mutual = self._tls.ca is not None
        newer: Any = self._newer  # the stubs do not know that it may return None
        return grpc.dynamic_ssl_server_credentials(self._configuration(), newer, mutual)

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        key, cert, ca = self._last
        return grpc.ssl_server_certificate_configuration([(key, cert)], ca if self._tls.ca is not None else None)

    def _newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC for every connection, on a thread of its own; None where all is as it was."""
        try:
            now = _read(self._tls)
        except UsageError as error:
            structlog.get_logger().warning("certificate_not_read_again", reason=str(error))
            return None
        if now == self._last:
            return None
        self._last = now
        return self._configuration()


def _read(tls: Tls) -> tuple[bytes, bytes, bytes]:
    """Key, certificate, authority."""
    try:
        return tls.key.read_bytes(), tls.cert.read_bytes(), tls.authority.read_bytes()
    except OSError as error:
        raise UsageError(f"tls: cannot read {error.filename}: {error.strerror}") from None

"""The job's certificate: one for all nodes, with the name that every server of a job goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "elaunch"
"""The name that every server of a job is called by, whatever its address: in the certificate as ``DNS:elaunch``."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a node: its certificate, the key to it, and the authority that signed those of all nodes.

    With ``ca``, both ends show a certificate that it signed (mutual TLS). Without, the certificate is its own
    authority, and clients show none.
    """

    cert: Path
    key: Path
    ca: Path | None = None

    @classmethod
    def of(cls, paths: Sequence[str]) -> Tls | None:
        """What :attr:`paths` gave, None for none at all."""
        return cls(*map(Path, paths)) if paths else None

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as text to be handed to another process."""
        return tuple(str(path) for path in (self.cert, self.key, self.ca) if path is not None)

    @property
    def authority(self) -> Path:
        """The file with what a peer's certificate must be signed by."""
        return self.ca or self.cert

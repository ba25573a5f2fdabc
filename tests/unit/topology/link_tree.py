"""A sysfs tree of ports that a test writes and changes: what counters are read from, and nothing else."""

from __future__ import annotations

from pathlib import Path

STILL = ("link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors", "port_xmit_data", "port_rcv_data")


class LinkTree:
    """``root`` is the folder that holds ``sys``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def rdma(self, nic: str, number: int = 1, *, rate: str = "400 Gb/sec (4X NDR)", **counters: int | str) -> Path:
        """A port that is up; the folder that it is in."""
        folder = self.root / "sys/class/infiniband" / nic / "ports" / str(number)
        self.write(folder, state="4: ACTIVE", phys_state="5: LinkUp", rate=rate)
        self.write(folder / "counters", **{**dict.fromkeys(STILL, 0), **counters})
        return folder

    def interface(self, name: str, *, speed: int | str = 10_000, **statistics: int | str) -> Path:
        """A network interface that is up; the folder that it is in."""
        folder = self.root / "sys/class/net" / name
        self.write(folder, operstate="up", carrier=1, speed=speed, carrier_changes=2)
        self.write(folder / "statistics", **{"rx_bytes": 0, "tx_bytes": 0, "rx_errors": 0, **statistics})
        return folder

    @staticmethod
    def write(folder: Path, **files: int | str) -> None:
        """Each file as one that was never half written."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            beside = folder / f".{name}"
            beside.write_text(f"{value}\n")
            beside.replace(folder / name)

    def down(self, folder: Path) -> None:
        """The cable is pulled. Whoever looks meanwhile sees it up, or as it is then."""
        if (folder / "operstate").exists():
            self.write(folder, operstate="down", carrier=0)
        else:
            self.write(folder, phys_state="2: Polling", state="1: DOWN", rate="40 Gb/sec (4X QDR)")

    def up(self, folder: Path, rate: str = "400 Gb/sec (4X NDR)") -> None:
        """It is put in again: whoever sees that finds the rest as it should be."""
        if (folder / "operstate").exists():
            self.write(folder, operstate="up", carrier=1)
        else:
            self.write(folder, rate=rate, phys_state="5: LinkUp", state="4: ACTIVE")

"""What PCI functions are, by their classes and ids."""

from __future__ import annotations

import pytest

from elaunch.topology.machine import PciFunction
from elaunch.topology.pci_ids import is_accelerator


@pytest.mark.parametrize(
    ("what", "class_code", "vendor", "device", "counts"),
    [
        ("H100", 0x030200, 0x10DE, 0x2330, True),
        ("V100 with a display class", 0x030000, 0x10DE, 0x1DB1, True),
        ("NVSwitch", 0x068000, 0x10DE, 0x22A3, False),
        ("audio of a GPU", 0x040300, 0x10DE, 0x10F0, False),
        ("MI250X", 0x038000, 0x1002, 0x7408, True),
        ("MI300X", 0x120000, 0x1002, 0x74A1, True),
        ("Data Center GPU Max", 0x038000, 0x8086, 0x0BD5, True),
        ("graphics of a processor", 0x030000, 0x8086, 0x9A60, False),
        ("Xeon Phi", 0x0B4000, 0x8086, 0x225C, True),
        ("QuickAssist", 0x0B4000, 0x8086, 0x4940, False),
        ("NPU of a laptop", 0x120000, 0x8086, 0x7D1D, False),
        ("Gaudi", 0x120000, 0x1DA3, 0x1020, True),
        ("Alveo", 0x120000, 0x10EE, 0x5020, False),
        ("ASPEED of a BMC", 0x030000, 0x1A03, 0x2000, False),
        ("ATI ES1000 of a BMC", 0x030000, 0x1002, 0x515E, False),
        ("Matrox of a BMC", 0x030000, 0x102B, 0x0538, False),
        ("display of QEMU", 0x030000, 0x1234, 0x1111, False),
        ("virtio's GPU", 0x038000, 0x1AF4, 0x1050, False),
        ("display of nobody", 0x030000, None, None, False),
        ("NIC", 0x020000, 0x15B3, 0x1021, False),
        ("no class", None, 0x10DE, 0x2330, False),
    ],
)
def test_what_counts_as_an_accelerator(
    what: str, class_code: int | None, vendor: int | None, device: int | None, counts: bool
) -> None:
    function = PciFunction("0000:01:00.0", class_code=class_code, vendor=vendor, device=device)
    assert is_accelerator(function) is counts, what

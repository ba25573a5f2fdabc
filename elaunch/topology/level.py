"""How far two things of a machine are from each other."""

from __future__ import annotations

import enum


class Level(enum.IntEnum):
    """What the way between a device and a port crosses, nearest first; the words are NCCL's and nvidia-smi's.

    LOC: the same PCI card. PIX: one PCI bridge at most. PXB: several, but no host bridge. PHB: a host bridge.
    NODE: several host bridges of one NUMA node. SYS: the link between NUMA nodes. UNKNOWN: the source does not tell.
    """

    LOC = 0
    PIX = 1
    PXB = 2
    PHB = 3
    NODE = 4
    SYS = 5
    UNKNOWN = 6

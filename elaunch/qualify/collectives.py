"""The collectives that are tried: names, sizes, and how bandwidths are counted. Values only."""

from __future__ import annotations

from dataclasses import dataclass

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all-reduce", "all-gather", "reduce-scatter"
BROADCAST, ALL_TO_ALL, SEND_RECV = "broadcast", "all-to-all", "send-recv"
OPS = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, SEND_RECV)
DTYPES = {
    "quick": ("float32", "bfloat16", "int64"),
    "full": ("float32", "bfloat16", "int64", "float16", "float64", "int32", "uint8"),
}
LAYOUTS = ("contiguous", "transposed")
KIB = 1024
SIZES = {"quick": (KIB, 64 * KIB, 1024 * KIB, 8192 * KIB), "full": tuple(KIB * 4**n for n in range(9))}
"""Bytes on each rank."""


@dataclass(frozen=True, slots=True)
class Collective:
    """One cell of them."""

    op: str
    dtype: str
    layout: str

    @property
    def name(self) -> str:
        return f"collectives/{self.op}/{self.dtype}/{self.layout}"

    @classmethod
    def of(cls, name: str) -> Collective:
        """Raises ValueError."""
        _, op, dtype, layout = name.split("/")
        return cls(op, dtype, layout)


def collectives(mode: str) -> tuple[Collective, ...]:
    """All dtypes contiguous; transposed in one dtype, or, in full, in all.

    Tensors with gaps are left out: Gloo takes them for contiguous, without a word, and computes something else.
    """
    dtypes = DTYPES[mode]
    transposed = dtypes if mode == "full" else dtypes[:1]
    dense = tuple(Collective(op, dtype, LAYOUTS[0]) for op in OPS for dtype in dtypes)
    return dense + tuple(Collective(op, dtype, LAYOUTS[1]) for op in OPS for dtype in transposed)


def bus_factor(op: str, world: int) -> float:
    """What the algorithm's bandwidth is times to be that of the busiest link (NCCL's performance tests count so)."""
    if world < 2:
        return 0.0
    if op == ALL_REDUCE:
        return 2 * (world - 1) / world
    if op in (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL):
        return (world - 1) / world
    return 1.0


def modulus(world: int) -> int:
    """Elements are whole numbers below it, so that sums over all ranks are exact in bfloat16 and in a byte."""
    return max(2, 256 // max(1, world))

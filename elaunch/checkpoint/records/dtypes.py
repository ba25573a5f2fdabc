"""torch's types by name, for whoever has no torch: how wide they are, and what safetensors calls them."""

from __future__ import annotations

# https://huggingface.co/docs/safetensors: the header's "dtype"; empty where the format has none.
_TYPES = {
    "float64": (8, "F64"),
    "float32": (4, "F32"),
    "float16": (2, "F16"),
    "bfloat16": (2, "BF16"),
    "int64": (8, "I64"),
    "int32": (4, "I32"),
    "int16": (2, "I16"),
    "int8": (1, "I8"),
    "uint64": (8, "U64"),
    "uint32": (4, "U32"),
    "uint16": (2, "U16"),
    "uint8": (1, "U8"),
    "bool": (1, "BOOL"),
    "complex32": (4, ""),
    "complex64": (8, "C64"),
    "complex128": (16, ""),
    "float8_e4m3fn": (1, "F8_E4M3"),
    "float8_e5m2": (1, "F8_E5M2"),
    "float8_e4m3fnuz": (1, "F8_E4M3FNUZ"),
    "float8_e5m2fnuz": (1, "F8_E5M2FNUZ"),
    "float8_e8m0fnu": (1, "F8_E8M0"),
}


def width(dtype: str) -> int | None:
    """Bytes of one element; None for a type that is not known here."""
    return _TYPES[dtype][0] if dtype in _TYPES else None


def safetensors_name(dtype: str) -> str:
    """As the safetensors format has it; empty where it has no such type."""
    return _TYPES[dtype][1] if dtype in _TYPES else ""

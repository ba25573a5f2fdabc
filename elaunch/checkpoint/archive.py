"""Read one value of a checkpoint that torch.save wrote, without running what it may hold, in bounded memory."""

from __future__ import annotations

import io
import pickletools
import zipfile
from typing import Any

import torch

from elaunch.errors import DamagedCheckpointError

# What torch.load(weights_only=True) would call, and which makes as much memory as the file says.
_UNBOUNDED = {"builtins bytearray", "torch._utils _rebuild_meta_tensor_no_storage"}
_MOST_RECORDS = 100_000


def load_value(data: bytes | bytearray | memoryview, where: str) -> Any:
    """The value. Raises DamagedCheckpointError for anything that is not one, or that asks for more than it holds."""
    file = io.BytesIO(data)
    try:
        _check_archive(file, len(data))
        file.seek(0)
        return torch.load(file, map_location="cpu", weights_only=True)
    except DamagedCheckpointError:
        raise
    except Exception as error:
        raise DamagedCheckpointError(f"{where}: cannot be read ({type(error).__name__}: {_line(error)})") from error


def _check_archive(file: io.BytesIO, size: int) -> None:
    with zipfile.ZipFile(file) as archive:
        records = archive.infolist()
        if len(records) > _MOST_RECORDS or sum(record.file_size for record in records) > size:
            raise ValueError(f"an archive of {size} bytes that says it holds more")
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("a compressed record")
        for record in records:
            if record.filename.endswith("/data.pkl"):
                _check_pickle(archive.read(record))


def _check_pickle(data: bytes) -> None:
    for operation, argument, _ in pickletools.genops(data):
        if operation.name in ("GLOBAL", "INST") and argument in _UNBOUNDED:
            raise ValueError(f"{argument} has no place in a checkpoint")
        if operation.name == "STACK_GLOBAL":
            raise ValueError("a pickle of a protocol that torch.save does not use")


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300] if str(error) else ""

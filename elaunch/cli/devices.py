"""How many ranks fit on this machine, found without importing torch.

torch counts what its own build can drive, so the build that is installed is looked at too: its ``version.py``
is text.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Build:
    """What the installed torch was built for. True where that is not known."""

    cuda: bool = True
    hip: bool = True
    xpu: bool = True


_MOST = 10_000  # ranks of a node: more is a slip of the finger


def count_slots(text: str, environ: Mapping[str, str], cpus: int | None = None) -> int:
    """``--nproc-per-node`` as a number. Raises ValueError that says what was expected.

    ``cpus`` are those that a scheduler granted: it need not have bound this process to them.
    """
    if re.fullmatch(r"[0-9]{1,9}", text) and 0 < int(text) <= _MOST:
        return int(text)
    usable = min(cpu_count(), cpus or _MOST)
    if text == "cpu":
        return usable
    if text not in ("gpu", "xpu", "auto"):
        raise ValueError(f"expected a number from 1 to {_MOST}, auto, cpu, gpu or xpu")
    build = torch_build()
    gpus = gpu_count(environ, build) if text != "xpu" else 0
    xpus = xpu_count(environ, build) if text != "gpu" and not gpus else 0
    if text != "auto" and not gpus + xpus:
        raise ValueError(f"{none_found(text, build)}; give a number, or auto to fall back to the CPUs")
    return gpus or xpus or usable


def none_found(kind: str, build: Build) -> str:
    """Why there is no device of ``kind``, gpu or xpu."""
    usable = build.cuda or build.hip if kind == "gpu" else build.xpu
    return f"no {kind} is visible here" if usable else f"the installed torch is a build without {kind} support"


def cpu_count() -> int:
    """The CPUs that this process may run on, as torch counts them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def torch_build() -> Build:
    """What torch's ``version.py`` says, read as text."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return Build()
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return Build()
    return parse_build(text)


def parse_build(text: str) -> Build:
    """The build that a ``version.py`` tells of."""

    def has(name: str) -> bool:
        found = re.search(rf"^{name}\b[^=]*=\s*(.+)$", text, re.MULTILINE)
        return found is None or found[1].strip() != "None"

    return Build(cuda=has("cuda"), hip=has("hip"), xpu=has("xpu"))


def gpu_count(environ: Mapping[str, str], build: Build, root: Path = _ROOT) -> int:
    """The GPUs, of NVIDIA or AMD, that a rank would see."""
    nvidia = nvidia_count(root) if build.cuda else 0
    if nvidia:
        return visible(environ.get("CUDA_VISIBLE_DEVICES"), nvidia)
    amd = rocm_count(root) if build.hip else 0
    for variable in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        amd = visible(environ.get(variable), amd)
    return amd


def visible(variable: str | None, count: int) -> int:
    """How many of ``count`` devices a ``*_VISIBLE_DEVICES`` leaves: those before the first bad one."""
    if variable is None:
        return count
    seen: list[str] = []
    for name in (part.strip() for part in variable.split(",")):
        exists = name.startswith(("GPU-", "MIG-")) or (name.isdecimal() and int(name) < count)
        if not exists or name in seen:
            break
        seen.append(name)
    return min(len(seen), count) if not variable.startswith("MIG-") else len(seen)


def nvidia_count(root: Path = _ROOT, count: Callable[[], int | None] | None = None) -> int:
    """NVIDIA's GPUs: what its management library says, else the device nodes, else the driver's list."""
    counted = (count or _nvml_count)()
    if counted is not None:
        return counted
    nodes = [path for path in _entries(root / "dev") if re.fullmatch(r"nvidia[0-9]+", path.name)]
    return len(nodes) or len(_entries(root / "proc/driver/nvidia/gpus"))


def _nvml_count() -> int | None:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return None
        number = ctypes.c_uint(0)
        status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(number))
        nvml.nvmlShutdown()
    except (OSError, AttributeError):
        return None
    return number.value if status == 0 else None


def rocm_count(root: Path = _ROOT) -> int:
    """AMD's GPUs: the compute nodes with SIMD units that this user may open."""
    return sum(_is_gpu(root, node) for node in _entries(root / "sys/class/kfd/kfd/topology/nodes"))


def _is_gpu(root: Path, node: Path) -> bool:
    try:
        lines = (node / "properties").read_text().splitlines()
    except OSError:
        return False  # a node of another container
    properties = dict(line.split(maxsplit=1) for line in lines if " " in line)
    minor = properties.get("drm_render_minor", "0")
    return properties.get("simd_count", "0") != "0" and (root / f"dev/dri/renderD{minor}").exists()


def xpu_count(environ: Mapping[str, str], build: Build, root: Path = _ROOT) -> int:
    """Intel's GPUs, less those that ``ZE_AFFINITY_MASK`` hides."""
    if not build.xpu:
        return 0
    cards = [card for card in _entries(root / "sys/class/drm") if re.fullmatch(r"card[0-9]+", card.name)]
    count = sum(_vendor(card) == "0x8086" for card in cards)
    mask = environ.get("ZE_AFFINITY_MASK")
    return count if not mask else min(count, len({part.split(".")[0].strip() for part in mask.split(",")}))


def _vendor(card: Path) -> str:
    try:
        return (card / "device/vendor").read_text().strip()
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []

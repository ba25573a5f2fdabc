"""Whether a rank may be forked from the warm process, or must be exec'd lest the program see a difference."""

from __future__ import annotations

import os
import sys
import zipimport
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import all_suffixes
from types import ModuleType

from elaunch.agent.program import Program
from elaunch.agent.start import RankStart

# Variables that the interpreter, the dynamic loader or modules read once, while they are started or imported.
# docs/warm-start.md says who reads which.
READ_AT_IMPORT = (
    "PYTHON",
    "LD_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "OMP_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "OPENBLAS_",
    "BLIS_",
    "VECLIB_",
    "NUMEXPR_",
    "NPY_",
    "NUMPY_",
    "ATEN_",
    "DNNL_",
    "ONEDNN_",
    "TORCH_",
    "PYTORCH_",
    "TORCHINDUCTOR_",
    "TRITON_",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_MODULE_LOADING",
    "ROCM_",
    "HIP_",
    "LANG",
    "LC_",
    "TZ",
    "TMPDIR",
    "HOME",
    "USE_",
    "AOT_",
)
# Of those, what is read at run time only.
READ_AT_RUN = ("TORCH_NCCL_", "TORCH_GLOO_", "TORCH_FR_", "HIP_VISIBLE_DEVICES")


@dataclass(frozen=True, slots=True)
class Warmth:
    """What the warm process is: its environment, and the modules that a bare interpreter would not have."""

    env: Mapping[str, str]
    bare: frozenset[str]

    def why_exec(self, start: RankStart) -> str | None:
        """Why this rank must be exec'd, as a sentence for the operator; None where a fork is as good."""
        program = start.program
        if program.kind == "command":
            return "it is not a Python program"
        checks: tuple[Callable[[], str | None], ...] = (
            lambda: _other_interpreter(program),
            lambda: _changed_variable(self.env, start.env),
            lambda: _other_cpus(start),
            lambda: _odd_file(program),
            lambda: _threads(),
            lambda: self._shadowed(program),
        )
        return next((reason for check in checks if (reason := check())), None)

    def _shadowed(self, program: Program) -> str | None:
        first = _first_path(program)
        imported = {
            name: module
            for name, module in list(sys.modules.items())
            if "." not in name and name not in self.bare and name != "__main__"
        }
        for name in sorted(_modules_in(first) & imported.keys()):
            if not _comes_from(imported[name], first):
                return f"{os.path.join(first, name)} takes the place of a module that is imported already"
        return None


def _other_interpreter(program: Program) -> str | None:
    if program.interpreter == sys.executable:
        return None
    return f"its interpreter is {program.interpreter}, the warm process has {sys.executable}"


def _changed_variable(warm: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    for name in sorted({*warm, *wanted}):
        if not name.startswith(READ_AT_IMPORT) or name.startswith(READ_AT_RUN):
            continue
        if warm.get(name) != wanted.get(name):
            return f"{name} is read at import time and differs from the warm process's"
    return None


def _other_cpus(start: RankStart) -> str | None:
    if start.cpus is None or "OMP_NUM_THREADS" in start.env or set(start.cpus) == os.sched_getaffinity(0):
        return None
    return "OpenMP takes its number of threads from the CPU set when it is loaded (set OMP_NUM_THREADS)"


def _odd_file(program: Program) -> str | None:
    if program.kind != "script":
        return None
    path = program.target
    if not os.path.isfile(path) or not os.access(path, os.R_OK) or path.endswith(".pyc") or _is_zip(path):
        return f"{path} is not a readable file of Python source"
    return None


def _is_zip(path: str) -> bool:
    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


def _threads() -> str | None:
    count = len(os.listdir("/proc/self/task"))
    return f"a preloaded module has started threads ({count - 1})" if count > 1 else None


def _first_path(program: Program) -> str:
    """The folder that such a start puts first in sys.path."""
    return os.path.dirname(os.path.realpath(program.target)) if program.kind == "script" else os.getcwd()


def _modules_in(folder: str) -> set[str]:
    """Names of the top-level modules and packages that a folder offers, without namespace packages."""
    suffixes = tuple(all_suffixes())
    return {name for entry in _entries(folder) if (name := _module_name(entry, suffixes))}


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return ()


def _module_name(entry: os.DirEntry[str], suffixes: tuple[str, ...]) -> str | None:
    for suffix in suffixes:
        if entry.name.endswith(suffix):
            return entry.name[: -len(suffix)]
        if os.path.isfile(os.path.join(entry.path, "__init__" + suffix)):
            return entry.name
    return None


def _comes_from(module: ModuleType, folder: str) -> bool:
    """Whether the module is what an import with ``folder`` in front would give: from there, or built in."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    if origin is None:
        return False
    where = os.path.dirname(os.path.realpath(origin))
    return folder in (where, os.path.dirname(where))

"""Whether a rank may be forked from the warm process, or must be exec'd lest the program see a difference."""

from __future__ import annotations

import os
import sys
import zipimport
from collections.abc import Callable, Collection, Mapping, Sequence
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
    imported: Mapping[str, ModuleType]

    @classmethod
    def now(cls, env: Mapping[str, str], bare: frozenset[str]) -> Warmth:
        """This process as it is; ``bare`` are the modules of a start without a program."""
        names = {name for name in sys.modules if "." not in name and name != "__main__"} - bare
        return cls(env, {name: sys.modules[name] for name in names})

    def why_exec(self, starts: Sequence[RankStart]) -> list[str | None]:
        """Why each rank must be exec'd, as a sentence for the operator; None where a fork is as good."""
        programs = {start.program for start in starts}
        common = {program: self._why_exec_program(program) for program in programs}
        return [common[start.program] or self._why_exec_here(start) for start in starts]

    def _why_exec_program(self, program: Program) -> str | None:
        if program.kind == "command":
            return "it is not a Python program"
        if program.kind == "run_path":
            return "--run-path is always a plain start"
        checks: tuple[Callable[[Program], str | None], ...] = (_other_interpreter, _odd_file, _threads, self._shadowed)
        return next((reason for check in checks if (reason := check(program))), None)

    def _why_exec_here(self, start: RankStart) -> str | None:
        return _changed_variable(self.env, start.env) or _other_cpus(start)

    def _shadowed(self, program: Program) -> str | None:
        first = _first_path(program)
        for name in sorted(_modules_in(first, self.imported.keys())):
            if not _comes_from(self.imported[name], first):
                return f"{os.path.join(first, name)} takes the place of a module that is imported already"
        return None


def _other_interpreter(program: Program) -> str | None:
    if program.interpreter == sys.executable:
        return None
    return f"its interpreter is {program.interpreter}, the warm process has {sys.executable}"


def _changed_variable(warm: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    differ = (name for name in {*warm, *wanted} if warm.get(name) != wanted.get(name))
    for name in sorted(differ):
        if name.startswith(READ_AT_IMPORT) and not name.startswith(READ_AT_RUN):
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


def _threads(program: Program) -> str | None:
    count = len(os.listdir("/proc/self/task"))
    return f"a preloaded module has started threads ({count - 1})" if count > 1 else None


def _first_path(program: Program) -> str:
    """The folder that such a start puts first in sys.path."""
    return os.path.dirname(os.path.realpath(program.target)) if program.kind == "script" else os.getcwd()


def _modules_in(folder: str, names: Collection[str]) -> set[str]:
    """Which of ``names`` a folder offers as a top-level module or package, namespace packages left out."""
    suffixes = tuple(all_suffixes())
    found: set[str] = set()
    try:
        entries = os.listdir(folder)
    except OSError:
        return found
    for entry in entries:
        if entry in names and any(os.path.isfile(os.path.join(folder, entry, "__init__" + s)) for s in suffixes):
            found.add(entry)
        found.update(entry[: -len(s)] for s in suffixes if entry.endswith(s) and entry[: -len(s)] in names)
    return found


def _comes_from(module: ModuleType, folder: str) -> bool:
    """Whether the module is what an import with ``folder`` in front would give: from there, or built in."""
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    if origin is None:
        return False
    where = os.path.dirname(os.path.realpath(origin))
    return folder in (where, os.path.dirname(where))

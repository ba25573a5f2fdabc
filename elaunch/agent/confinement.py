"""On which CPUs a process runs, and from which NUMA node it takes memory; nothing here ever ends a process."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable, Sequence

from elaunch.topology.cpus import format_list

_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "s390x": 270}
_PREFERRED = 1  # of linux/mempolicy.h
_WORD = 8 * ctypes.sizeof(ctypes.c_ulong)
_MOST_NODES = 1024


def confine(cpus: Sequence[int] | None, memory: int | None) -> list[str]:
    """Keep this process, and what it starts, to ``cpus``, and let it take memory from ``memory`` first.

    What cannot be had is left as it is; returns a sentence for each. An empty intersection with the CPUs that are
    allowed counts as that.
    """
    said = []
    if cpus is not None and (why := _run_on(cpus)):
        said.append(why)
    if memory is not None and (why := prefer(memory)):
        said.append(why)
    return said


def _run_on(cpus: Iterable[int]) -> str:
    chosen, allowed = set(cpus), os.sched_getaffinity(0)
    if not chosen & allowed:
        return f"none of the CPUs {format_list(chosen)} is allowed here; it may use all of {format_list(allowed)}"
    try:
        os.sched_setaffinity(0, chosen & allowed)
    except OSError as error:
        return f"cannot be bound to the CPUs {format_list(chosen & allowed)}: {error.strerror}"
    return ""


def prefer(node: int) -> str:
    """Take this thread's memory from a NUMA node while that has some. Why that cannot be had, "" where it can."""
    if not 0 <= node < _MOST_NODES:
        return f"there is no NUMA node {node}"
    words = (ctypes.c_ulong * (_MOST_NODES // _WORD))()
    words[node // _WORD] = 1 << node % _WORD
    why = _set_mempolicy(_PREFERRED, words)
    return f"memory of NUMA node {node} cannot be preferred: {why}" if why else ""


def memory_refused(node: int) -> str:
    """Why ``prefer`` would fail in a process started from here, "" where it would not.

    Tried in a thread of its own: the policy is a thread's.
    """
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(prefer(node)), name="memory-policy")
    thread.start()
    thread.join()
    return found[0] if found else ""


def _set_mempolicy(mode: int, nodes: ctypes.Array[ctypes.c_ulong]) -> str:
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if number is None or _WORD != 64:
        return f"not known how to on {os.uname().machine}"
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel takes one bit fewer than it is told.
    if libc.syscall(ctypes.c_long(number), ctypes.c_long(mode), nodes, ctypes.c_ulong(_MOST_NODES + 1)) == 0:
        return ""
    return os.strerror(ctypes.get_errno())

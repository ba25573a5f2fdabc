"""Where torch is listened to while a rank starts: inside of ``init_process_group``, not around it.

What is replaced are names that torch's own functions look up when they are called. So it does not matter how a program
has imported ``init_process_group``, whose signature, result and errors stay what they are. What fails in here is told
once, and the start goes on as without; only a check that the ranks do not pass is raised.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from elaunch.errors import StartCheckError
from elaunch.worker.claim import claim
from elaunch.worker.start import Start, installed
from elaunch.worker.start_end import settle
from elaunch.worker.start_mesh import check_mesh

_current: Start | None = None
_failed = False
_excepthook: Callable[..., Any] | None = None  # as it was before torch wrapped it


def install(environ: Mapping[str, str] = os.environ) -> Start | None:
    """Listen from now on, once; None where this process is no rank, or its start is not to be looked at."""
    global _current
    page = claim() if installed() else None
    if page is None or not page.world_size or _current is not None:
        return _current
    with _quietly():
        start = Start(page, environ)
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        _replace(c10d, "rendezvous", functools.partial(_rendezvous, start))
        _replace(c10d, "_new_process_group_helper", functools.partial(_helper, start, c10d))
        _replace(c10d, "_update_default_pg", functools.partial(_update, start))
        _replace(c10d, "destroy_process_group", functools.partial(_destroy, c10d))
        # The same object, as with torch: a function is pickled by its name in the module that it says it is of.
        sys.modules["torch.distributed"].destroy_process_group = c10d.destroy_process_group  # type: ignore[attr-defined]
        if meshes := sys.modules.get("torch.distributed.device_mesh"):
            _replace(meshes.DeviceMesh, "_init_process_groups", functools.partial(_mesh, start, c10d))
        _current = start
    return _current


def current() -> Start | None:
    """This rank's start, where it is listened to."""
    return _current


def _replace(module: Any, name: str, wrapper: Callable[..., Any]) -> None:
    held = inspect.getattr_static(module, name)
    of_torch = held.__func__ if isinstance(held, staticmethod) else held

    @functools.wraps(of_torch)
    def ours(*args: Any, **kwargs: Any) -> Any:
        if _current is None:  # a forked child
            return of_torch(*args, **kwargs)
        return wrapper(of_torch, *args, **kwargs)

    setattr(module, name, staticmethod(ours) if isinstance(held, staticmethod) else ours)


def _rendezvous(
    start: Start, of_torch: Callable[..., Any], url: Any, rank: Any = -1, world_size: Any = -1, **more: Any
) -> Iterator[Any]:
    with _quietly():
        start.asks(str(url), int(rank), int(world_size))
    with _told(start):
        found = of_torch(url, rank, world_size, **more)
    return _met(start, found)


def _met(start: Start, found: Iterator[Any]) -> Iterator[Any]:
    while True:
        with _told(start):
            try:
                store, rank, world_size = met = next(found)
            except StopIteration:
                return
        with _quietly():
            start.met(store, rank, world_size)
        yield met


def _helper(start: Start, c10d: Any, of_torch: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Of the arguments ``group_size, group_rank, global_ranks_in_group, backend, store, ...``."""
    if len(args) < 5 or args[2] or c10d.GroupMember.WORLD is not None:
        return of_torch(*args, **kwargs)  # not the default group
    size, rank, _, backend, store, *rest = args
    with _quietly():
        timeout = kwargs.get("timeout")
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        start.makes(str(backend), int(rank), int(size), seconds, _device(kwargs.get("device_id")))
        if start.prefix:
            store = c10d.PrefixStore(start.prefix, store)
    with _told(start):
        return of_torch(size, rank, args[2], backend, store, *rest, **kwargs)


def _update(start: Start, of_torch: Callable[..., Any], group: Any) -> Any:
    if group is not None:
        _unwrap_excepthook()
    result = of_torch(group)
    with _quietly():
        start.left() if group is None else start.made()
    return result


def _unwrap_excepthook() -> None:
    """Torch wraps the hook with each process group that it makes, and never takes that back: once is enough."""
    global _excepthook
    if getattr(sys.excepthook, "__qualname__", "").startswith("init_process_group.<locals>") and _excepthook:
        sys.excepthook = _excepthook
    else:
        _excepthook = sys.excepthook


def _destroy(c10d: Any, of_torch: Callable[..., Any], group: Any = None, *rest: Any, **more: Any) -> Any:
    """Torch shuts the groups down in the reverse order of their names, the same for all ranks, the default one last."""
    if c10d.GroupMember.WORLD is not None and (group is None or group is c10d.GroupMember.WORLD):
        with _quietly():
            settle()
    return of_torch(group, *rest, **more)


def _mesh(start: Start, c10d: Any, of_torch: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Called by the constructor of a mesh, which knows already what it is to be; parts of a mesh call it otherwise."""
    caller = sys._getframe(2)
    mesh = caller.f_locals.get("self") if caller.f_code.co_name == "__init__" else None
    if mesh is not None:
        with _quietly():
            check_mesh(start, mesh, int(c10d._world.group_count))
    return of_torch(*args, **kwargs)


def _device(device_id: Any) -> str:
    """The program's name for the device of this rank, where it has chosen one."""
    if device_id is not None:
        return str(device_id)
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return f"cuda:{cuda.current_device()}" if cuda is not None and cuda.is_initialized() else ""


@contextlib.contextmanager
def _told(start: Start) -> Iterator[None]:
    """What torch raises goes on its way, and is told."""
    try:
        yield
    except Exception as error:
        with _quietly():
            start.failed(error)
        raise


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Only what the check is for gets out."""
    try:
        yield
    except StartCheckError:
        raise
    except Exception as error:  # noqa: BLE001 - of torch's internals anything may change; the program goes on
        _tell_failed(error)


def _tell_failed(error: Exception) -> None:
    global _failed
    if _failed:
        return
    _failed = True
    why = f"{type(error).__name__}: {error}".replace("\n", " ")
    text = f"elaunch: the start of this rank cannot be followed ({why}): it goes on unchecked\n"
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="backslashreplace"))


def _forget() -> None:
    """A forked child is no rank."""
    global _current
    _current = None


os.register_at_fork(after_in_child=_forget)

"""What a rank that dies of an exception leaves for its agent, in the words of torch's ``record``."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from types import TracebackType


def leave(error: BaseException, trace: TracebackType | None) -> None:
    """Write ``error`` with ``trace`` where the agent looks for it, unless the program has told something itself."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or (os.path.exists(path) and os.path.getsize(path)):
        return
    try:
        lines = "".join(traceback.format_exception(type(error), error, trace))
        extra = {"py_callstack": lines, "timestamp": repr(time.time())}
        text = json.dumps({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}})
        with open(path, "w") as file:
            file.write(text)
    except Exception:  # noqa: BLE001 - an exception's own text may raise anything; the traceback on stderr tells as well
        return


def leave_uncaught() -> None:
    """From now on an exception that ends this process is left as well, as it is in a rank that was forked warm."""
    before, rank = sys.excepthook, os.getpid()

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and os.getpid() == rank:  # no child that the program has forked
            leave(error, trace)
        before(kind, error, trace)

    sys.excepthook = hook

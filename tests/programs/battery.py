"""Writes what a program can see of its own start to the file named first, as JSON."""

import atexit
import faulthandler
import gc
import inspect
import json
import locale
import logging
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import threading
import time
import traceback
import warnings

seen_globals = {name: value for name, value in globals().items() if name.startswith("__")}


class Thing:
    def __init__(self, value):
        self.value = value


def double(thing):
    return Thing(thing.value * 2)


def stream(file):
    return {
        "type": type(file).__name__,
        "buffer": type(file.buffer).__name__,
        "line_buffering": file.line_buffering,
        "write_through": file.write_through,
        "encoding": file.encoding,
        "errors": file.errors,
        "name": file.name,
        "fileno": file.fileno(),
        "tty": file.isatty(),
    }


def interpreter():
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "flags": repr(sys.flags),
        "executable": sys.executable,
        "warnoptions": sys.warnoptions,
        "xoptions": sys._xoptions,
        "hooks": [
            sys.excepthook is sys.__excepthook__,
            sys.displayhook is sys.__displayhook__,
            sys.unraisablehook is sys.__unraisablehook__,
            threading.excepthook is threading.__excepthook__,
        ],
        "trace": [sys.gettrace(), sys.getprofile()],
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "faulthandler": faulthandler.is_enabled(),
        "encodings": [sys.getfilesystemencoding(), locale.getlocale(), sys.getdefaultencoding()],
        "logging": [logging.root.level, repr(logging.root.handlers)],
        "main_thread": [
            threading.main_thread() is threading.current_thread(),
            threading.current_thread().name,
        ],
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
    }


def main_module():
    module = sys.modules["__main__"]
    return {
        "globals": {
            name: repr(value) if isinstance(value, (str, type(None), dict)) else type(value).__name__
            for name, value in seen_globals.items()
        },
        "spec": getattr(seen_globals["__spec__"], "name", None),
        "is_main": getattr(module, "Thing", None) is Thing,
        "source": inspect.getsource(double),
    }


def process():
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    umask = os.umask(0)
    os.umask(umask)
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "signals": {s.name: repr(signal.getsignal(s)) for s in signal.Signals},
        "masks": [status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")],
        "name": status["Name"].strip(),
        "title": shown_command_line(),
        "umask": umask,
        "cwd": os.getcwd(),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in names},
        "nice": os.nice(0),
        "cpus": sorted(os.sched_getaffinity(0)),
        "session": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
        "environment": dict(os.environ),
        "timezone": time.tzname,
        "children": children(),
    }


def shown_command_line():
    with open("/proc/self/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode().strip()


def children():
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return "none"
    return "some"


def caught():
    try:
        double(None)
    except AttributeError:
        return traceback.format_exc()


def processes():
    results = {}
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            thing = pool.apply(double, (Thing(21),))
        results[method] = [thing.value, type(thing) is Thing]
    current = multiprocessing.current_process()
    results["self"] = [current.name, multiprocessing.parent_process() is None, len(current.authkey)]
    return results


def of_torch():
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(8.0))
    loaded = [float(batch[0].sum()) for batch in DataLoader(data, batch_size=4, num_workers=2)]
    return {
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "defaults": [
            str(torch.get_default_dtype()),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        ],
        "product": (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item(),
        "loaded": loaded,
        "filters": len(warnings.filters),
    }


def said_at_exit(path):
    with open(path + ".exit", "w") as file:
        file.write(f"{sys.argv[1:]} {sys.modules['__main__'].__name__}")


if __name__ == "__main__":
    seen = {
        "interpreter": interpreter(),
        "main": main_module(),
        "process": process(),
        "streams": [stream(sys.stdin), stream(sys.stdout), stream(sys.stderr)],
        "caught": caught(),
        "pickled": type(pickle.loads(pickle.dumps(Thing(1)))) is Thing,
    }
    seen["processes"] = processes()
    seen["torch"] = of_torch()
    atexit.register(said_at_exit, sys.argv[1])
    with open(sys.argv[1], "w") as file:
        json.dump(seen, file)
    print("to stdout")
    print("to stderr", file=sys.stderr)

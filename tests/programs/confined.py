"""Prints, as JSON, where it may run and from where it takes memory, as of its first line."""

import ctypes
import json
import os

GET_MEMPOLICY = 239  # on x86-64

mode, nodes = ctypes.c_int(-1), (ctypes.c_ulong * 16)()
ctypes.CDLL(None).syscall(GET_MEMPOLICY, ctypes.byref(mode), nodes, ctypes.c_ulong(1024), None, ctypes.c_ulong(0))
seen = {"cpus": sorted(os.sched_getaffinity(0)), "mode": mode.value, "nodes": nodes[0]}
print(json.dumps(seen), flush=True)

"""``elaunch kubernetes operator``: the process that makes pods of ElasticJobs."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from elaunch.errors import UsageError

_NEEDED = ("kopf", "kubernetes")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"kubernetes operator: {message.removeprefix('argument ')}")


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run until SIGTERM; the exit code. Raises UsageError, also where what it needs is not installed."""
    parser = _Parser(prog="elaunch kubernetes operator", description="Make pods of ElasticJobs, and look after them.")
    add = parser.add_argument
    add("--namespace", "-n", action="append", default=[], metavar="NAME", help="serve these only (default: all)")
    add("--lease-namespace", metavar="NAME", help="where several operators elect one (default: that of its pod)")
    add("--kubeconfig", metavar="FILE", help="(default: the pod's own account, else $KUBECONFIG)")
    add("--liveness", metavar="URL", help="where it answers probes, as http://0.0.0.0:8081/healthz")
    given = parser.parse_args(arguments)
    if missing := [name for name in _NEEDED if importlib.util.find_spec(name) is None]:
        raise UsageError(
            f"kubernetes operator: {' and '.join(missing)} is not installed here: pip install 'elaunch[kubernetes]'"
        )
    operator: Callable[..., int] = importlib.import_module("elaunch.kubernetes.running").main
    return operator(
        given.namespace,
        lease_namespace=given.lease_namespace,
        identity=environ.get("ELAUNCH_POD_NAME"),
        kubeconfig=given.kubeconfig,
        liveness=given.liveness,
    )

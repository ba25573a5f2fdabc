"""``elaunch kubernetes probe``: a kubelet asks whether the agent of this pod lives, or is of use to its job."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

_USAGE = "usage: elaunch kubernetes probe live|ready; 0 if so, 1 if not"


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """0 where it is so, 1 where it is not, 2 for bad input; with a line that says why."""
    from elaunch.schedulers.probe_file import probe

    if list(arguments) in (["-h"], ["--help"]):
        sys.stdout.write(f"{_USAGE}\n")
        return 0
    if list(arguments) not in (["live"], ["ready"]):
        sys.stderr.write(f"elaunch: error: kubernetes probe: expected live or ready; {_USAGE}\n")
        return 2
    well, text = probe(arguments[0], environ)
    sys.stdout.write(f"{'' if well else 'not '}{arguments[0]}: {text}\n")
    return 0 if well else 1

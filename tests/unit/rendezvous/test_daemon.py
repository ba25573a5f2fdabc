"""Why an etcd did not start: its data, or something that the machine is short of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elaunch.rendezvous.child import Layout
from elaunch.rendezvous.daemon import Daemon

NO_THREAD = """runtime: failed to create new OS thread (have 3 already; errno=11)
runtime: may need to increase max user processes (ulimit -u)
fatal error: newosproc

runtime stack:
runtime.throw(0x1206ff6, 0x9)
"""
DAMAGED = "panic: wal: crc mismatch\n\ngoroutine 1 [running]:\n"


def daemon(folder: Path, log: str) -> Any:
    layout = Layout(folder)
    layout.data.mkdir()
    layout.log.write_text(log)
    made: Any = Daemon(Any, layout, Any)  # type: ignore[arg-type]
    made._etcd = SimpleNamespace(returncode=2)
    return made


@pytest.mark.parametrize(("log", "to_blame"), [(NO_THREAD, False), (DAMAGED, True)])
def test_data_are_put_aside_only_where_they_are_to_blame(log: str, to_blame: bool, tmp_path: Path) -> None:
    assert daemon(tmp_path, log)._data_is_to_blame() is to_blame


def test_last_words_name_the_cause_not_the_stack(tmp_path: Path) -> None:
    daemon(tmp_path, NO_THREAD)
    assert Layout(tmp_path).last_words().startswith("runtime: failed to create new OS thread")

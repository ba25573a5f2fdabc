"""Why an etcd did not start: its data, or something that the machine is short of."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elaunch.rendezvous.child import Layout
from elaunch.rendezvous.daemon import Daemon
from elaunch.rendezvous.hiring import EmbeddedEtcd
from elaunch.rendezvous.order import Order

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


def test_what_a_lost_etcd_complained_of_is_known(tmp_path: Path) -> None:
    daemon(
        tmp_path, '{"level":"warn","msg":"slow"}\n{"level":"panic","msg":"failed","error":"no space left on device"}\n'
    )
    order = Order("job", str(tmp_path), (), "unix:x:1", False, "", 0.0, 0, ())
    assert EmbeddedEtcd((), "3.5", _order=order).complaint == "failed: error no space left on device"
    assert EmbeddedEtcd((), "3.5").complaint == ""


def test_a_full_disk_is_told_though_the_log_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order("job", str(tmp_path), (), "unix:x:1", False, "", 0.0, 0, ())
    assert EmbeddedEtcd((), "3.5", _order=order).complaint == ""
    monkeypatch.setattr(Layout, "free_space", lambda _: 0)
    assert EmbeddedEtcd((), "3.5", _order=order).complaint.startswith(f"only 0 MB are free in {tmp_path}")


def test_etcd_is_ended_though_no_thread_is_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    made = daemon(tmp_path, "")
    made._etcd = subprocess.Popen(["sleep", "600"])
    asyncio.run(made.stop())
    assert made._etcd.returncode is not None

"""The undisturbed run is a process, which may hang or end as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soaking import reference
from bench.soaking.reference import Reference

_TELLS = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"step": int(line), "epoch": 0, "ids": [1, 2], "loss": 0.5}))
    print(flush=True)
"""


def test_it_tells_what_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_TELLS)
    made = Reference(str(tmp_path / "program.py"))
    assert made.upto(3)[3].ids == (1, 2)
    assert made.upto(2) == {}
    made.close()


@pytest.mark.parametrize("program", ["import time; time.sleep(600)", "raise SystemExit(1)"])
def test_one_that_hangs_or_has_ended_is_not_waited_for(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_LATE", 0.5)
    (tmp_path / "program.py").write_text(program)
    made = Reference(str(tmp_path / "program.py"))
    with pytest.raises(OSError, match=r"the reference has ended|Broken pipe"):
        made.upto(3)
    made.close()

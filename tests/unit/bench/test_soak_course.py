"""The faults of a soak: one that stays, or a course that ends too early, is seen."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bench.soaking.broken import BrokenError
from bench.soaking.course import Course, Happened
from elaunch.inject import Fault, Planned

PLANNED = (Planned(0.0, Fault("etcd-kill", seconds=1.0), 1), Planned(0.0, Fault("loss", seconds=1.0), 1))


class Stuck:
    """An injection whose end did not come out."""

    over = True
    error = TimeoutError("etcd e1 does not serve")


def test_a_fault_that_is_not_undone_breaks_the_run() -> None:
    course: Any = Course(None, None, PLANNED[:1], lambda *_: None)  # type: ignore[arg-type]
    course.happened.append(Happened(PLANNED[0], 1.0, injection=Stuck()))  # type: ignore[arg-type]
    with pytest.raises(BrokenError, match=r"progress: .*etcd-kill for 1 s is not undone: etcd e1 does not serve"):
        course.check()
    assert course.quiet_since(1e12) < 1e12, "it is not waited for"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_course_that_breaks_off_is_no_quiet_soak() -> None:
    class Broken:
        def bring_about(self, *_: object) -> None:
            raise KeyError("a mistake of the soak's own")

    course = Course(Broken(), None, PLANNED, lambda *_: None)  # type: ignore[arg-type]
    course.check()
    course.start()
    for thread in threading.enumerate():
        if thread.name == "soak-course":
            thread.join(10.0)
    with pytest.raises(RuntimeError, match="broke off after 0 of 2 faults"):
        course.check()
    course.stop()
    course.check()

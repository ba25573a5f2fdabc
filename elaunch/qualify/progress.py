"""The course of a training over faults: work that was done again, and whether it came out the same. Values only."""

from __future__ import annotations

from collections.abc import Sequence

from elaunch.qualify.lines import Line, of


def lost_steps(lines: Sequence[Line], before: int, after: int) -> int | None:
    """The steps of generation ``before`` that a later one, up to ``after``, did again; None where nothing is known."""
    done = [int(one["step"]) for one in of(lines, "loss") if one["generation"] <= before]
    began = [int(one["step"]) for one in of(lines, "restored") if one["generation"] == after]
    return max(0, max(done) - min(began)) if done and began else None


def identical(lines: Sequence[Line], start: int = 1) -> tuple[int, str]:
    """How many steps were done more than once with one loss, and a sentence about the first that had another."""
    losses: dict[int, tuple[float, int]] = {}
    again = 0
    for one in of(lines, "loss"):
        step, loss, generation = int(one["step"]), float(one["loss"]), int(one["generation"])
        if step in losses:
            old, was = losses[step]
            if old != loss:
                return (
                    again,
                    f"step {step} had loss {old!r} in generation {was}, and {loss!r} in generation {generation}",
                )
            again += generation != was
        else:
            losses[step] = loss, generation
    return again, ""


def undisturbed(lines: Sequence[Line]) -> tuple[int, str]:
    """How many of a training's steps the run at its end has that nothing disturbed, and a sentence about the first
    whose losses differ."""
    right = {int(one["step"]): float(one["loss"]) for one in of(lines, "undisturbed")}
    common = 0
    for one in of(lines, "loss"):
        step = int(one["step"])
        if step not in right:
            continue
        if right[step] != float(one["loss"]):
            return common, f"step {step} has loss {one['loss']!r}; undisturbed it is {right[step]!r}"
        common += 1
    return common, ""

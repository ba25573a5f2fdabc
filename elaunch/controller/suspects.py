"""Checkpoints that are not worth another try: how often generations failed that went on from one. Values only.

A checkpoint can be whole and still be what ends the job: it does not fit into memory, or what it holds (a loss that is
no number any more) makes the program raise each time. So where several generations in a row went on from the same
step, failed, and got nowhere, the next plan avoids it, and the one before it is taken. What getting somewhere means
:mod:`elaunch.controller.restarts` says, and when two failures are enough.
"""

from __future__ import annotations

from dataclasses import replace

from elaunch.rendezvous.memory import History

MOST = 16  # suspects that are remembered


def reckoned(history: History, restored: int, *, advanced: bool, after: int) -> History:
    """``history`` after a generation that went on from step ``restored`` failed.

    ``restored`` is negative where it went on from none, or told none: then no checkpoint is to blame, and the row is
    as long as it was. ``after`` failures in a row make a suspect, never where it is 0.
    """
    if advanced:
        return replace(history, returned_to=-1, returns=0)
    if restored < 0:
        return history
    returns = history.returns + 1 if restored == history.returned_to else 1
    if not after or returns < after:
        return replace(history, returned_to=restored, returns=returns)
    return suspected(history, restored)


def suspected(history: History, step: int) -> History:
    """``history`` where the checkpoint of ``step`` is suspect."""
    suspects = (*(known for known in history.suspects if known != step), step)
    return replace(history, returned_to=-1, returns=0, suspects=suspects[-MOST:])


def cleared(history: History, step: int) -> History:
    """``history`` where the checkpoint of ``step`` is not suspect: an operator asks for it, or it was made anew."""
    if step not in history.suspects and step != history.returned_to:
        return history
    if step == history.returned_to:
        history = replace(history, returned_to=-1, returns=0)
    return replace(history, suspects=tuple(s for s in history.suspects if s != step))


def sentence(step: int) -> str:
    """What makes a checkpoint suspect, for a person."""
    return (
        f"the checkpoint of step {step} is suspect: one generation after the other went on from it and failed before "
        f"any progress; the next plan avoids it (elaunch restart JOB --from-step {step} takes it all the same)"
    )

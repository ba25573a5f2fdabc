"""What a misspelt name may have been meant for."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

_ALIKE = 0.7  # of 1.0
_MOST = 3


def suggestion(name: str, known: Sequence[str]) -> str:
    """``did you mean A or B?``, the likeliest first; empty where nothing known is near ``name``."""
    scores = {candidate: _likeness(name, candidate) for candidate in known}
    near = sorted((one for one in known if scores[one] >= _ALIKE), key=lambda one: -scores[one])[:_MOST]
    return f"did you mean {' or '.join(near)}?" if near else ""


def _likeness(name: str, candidate: str) -> float:
    """Like the whole of ``candidate``, or nearly as good, like its beginning: names may be shortened."""
    whole = SequenceMatcher(None, name, candidate).ratio()
    beginning = SequenceMatcher(None, name, candidate[: len(name)]).ratio()
    return max(whole, 0.9 * beginning)

"""``elaunch kubernetes``, by its first word: a probe, asked for every few seconds, imports next to nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit code. Raises ElaunchError."""
    if words[:1] == ["probe"]:
        from elaunch.cli.kubernetes_probe import run as probe

        return probe(words[1:], environ)
    from elaunch.cli.kubernetes import run as speak

    return speak(words, environ)

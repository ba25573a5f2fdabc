"""What an option is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "integer", "number", "flag", "choice", "list"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One option. ``dest`` is its long name with underscores; ``env``: ``PET_<DEST>`` can set it.

    ``own_variable`` is one more that can, for what all commands share.
    """

    dest: str
    help: str
    kind: Kind = "text"
    default: str | int | float | bool | tuple[str, ...] | None = None
    short: str | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    env: bool = True
    ours: bool = False
    own_variable: str | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Both ``--a-b`` and ``--a_b``, after the short form."""
        dashed = "--" + self.dest.replace("_", "-")
        both = (dashed, "--" + self.dest) if "_" in self.dest else (dashed,)
        return (self.short, *both) if self.short else both

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that stand in for the option; the first that is set counts."""
        pet = (f"PET_{self.dest.upper()}",) if self.env else ()
        return (*pet, self.own_variable) if self.own_variable else pet

"""What a rank has of the state, from its call of save until it is written: shared out once, copied each time."""

from __future__ import annotations

from elaunch.checkpoint.collective import planning
from elaunch.checkpoint.collective.planning import Described, Planned
from elaunch.checkpoint.collective.ranks import Ranks
from elaunch.checkpoint.encoding.image import Image
from elaunch.checkpoint.storages.failures import line


class Stage:
    """``planned`` is how the state is shared out, ``image`` the memory for this rank's share, kept between saves."""

    def __init__(self) -> None:
        self.planned: Planned | None = None
        self.image: Image | None = None

    def copy(self, mine: Described, ranks: Ranks, *, changed: bool) -> str:
        """Copy the state into this rank's image. What went wrong on this rank alone, in words."""
        if self.planned is None or changed:
            self.planned = planning.share_out(mine, ranks)
            self.close()
        try:
            if self.image is None:
                self.image = Image(self.planned.share)
            self.image.fill(mine.planner())
        except Exception as error:  # noqa: BLE001 -- whatever torch raises: the others are told, and go on
            return f"its state could not be copied: {line(error)}"
        return ""

    def close(self) -> None:
        """Let go of the memory."""
        if self.image is not None:
            self.image.close()
            self.image = None

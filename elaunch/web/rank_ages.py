"""How long ago each rank went on, as those who look were told: a page lets the ages that it has grow by itself.

So a rank that goes on, and of which nothing else changes, has to be told now and then: it would look as if it hung.
"""

from __future__ import annotations

from collections.abc import Iterable

from elaunch.web.rank_table import RankTable

RENEWED = 5.0  # seconds by which the age that a page shows may be too high: half of what makes a rank stand still


class Ages:
    """When each rank last went on, in wall-clock seconds, as it was told."""

    def __init__(self) -> None:
        self._moments: list[float] = []

    def begin(self, table: RankTable, at: float) -> None:
        """The whole table is told, as it is at ``at``."""
        self._moments = [at - age for age in table.columns["progress_age"]]

    def told(self, table: RankTable, at: float, rows: Iterable[int]) -> None:
        """These rows are told."""
        for row in rows:
            self._moments[row] = at - table.columns["progress_age"][row]

    def renewed(self, table: RankTable, at: float) -> set[int]:
        """The rows that have gone on since they were told."""
        ages = table.columns["progress_age"]
        return {row for row, age in enumerate(ages) if 0 <= age < at - self._moments[row] - RENEWED}

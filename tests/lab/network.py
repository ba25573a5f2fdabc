"""The hosts of the laboratory's tests: those of ``elaunch.lab``."""

from __future__ import annotations

from elaunch.lab.ground import impossible as impossible
from elaunch.lab.ground import ip as ip
from elaunch.lab.network import Network as Network

"""The agent's process of ``elaunch.launch``: started by its path, so that it runs whatever ``sys.path`` says."""

import os
import sys


def _open_package() -> None:
    """Put what holds this elaunch in the place of this file's folder, whose modules are no top-level ones."""
    here = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(os.path.dirname(here)))


if __name__ == "__main__":
    _open_package()
    from elaunch.cli.launched import main

    sys.exit(main(sys.argv[1:]))

"""The program of ranks that run a function: started by its path, so that it runs whatever ``sys.path`` says."""

import sys


def _open_package() -> None:
    """Make this elaunch importable, and leave ``sys.path`` without this file's folder."""
    import os

    here = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    sys.path.insert(0, os.path.dirname(os.path.dirname(here)))
    import elaunch  # noqa: F401 - what is below it is found through it from now on

    del sys.path[0]


if __name__ == "__main__":
    _open_package()
    from elaunch.worker.called import main

    main()

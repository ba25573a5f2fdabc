"""``python -m elaunch``: the same as the ``elaunch`` command."""

import sys

from elaunch.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

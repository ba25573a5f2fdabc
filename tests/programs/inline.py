"""Runs the program text that is its first argument."""

import sys

exec(sys.argv[1])

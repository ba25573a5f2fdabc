"""A rank that does nothing but live: what is measured is what others make of its death. Says on stdout that it is up."""

import os
import time

os.write(1, f"stepping-rank {os.environ['RANK']} {os.getpid()}\n".encode())  # in one go: others write there too
while True:
    time.sleep(600)

"""A rank that does nothing but live, and says on stdout that it does: what is measured is what follows its death."""

import os
import time

os.write(1, f"stepping-rank {os.environ['RANK']} {os.getpid()}\n".encode())  # in one go: others write there too
while True:
    time.sleep(600)

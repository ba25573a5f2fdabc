"""Ignores SIGTERM, and leaves a grandchild in a session of its own that ignores it too; tells both pids.

Arguments: ``stay`` or an exit code to leave with, the grandchild staying behind.
"""

import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("grandchild", os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
print("rank", os.getpid(), flush=True)
if sys.argv[1] == "stay":
    time.sleep(600)
sys.exit(int(sys.argv[1]))

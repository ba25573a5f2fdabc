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
        os.write(1, f"grandchild {os.getpid()}\n".encode())
        time.sleep(600)
    os._exit(0)
os.wait()
os.write(1, f"rank {os.getpid()}\n".encode())
if sys.argv[1] == "stay":
    time.sleep(600)
sys.exit(int(sys.argv[1]))

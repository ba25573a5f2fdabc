"""Ends in the way named on its command line."""

import atexit
import os
import signal
import sys
import threading
import time


class Last:
    def __init__(self, text):
        self.text = text

    def __del__(self):
        os.write(1, f"{self.text} deleted\n".encode())


def falls_off():
    print("done")


def exits_3():
    sys.exit(3)


def exits_none():
    sys.exit()


def exits_with_text():
    sys.exit("a reason")


def exits_with_object():
    sys.exit(("a", 1))


def raises():
    raise ValueError("no good")


def raises_from():
    try:
        {}["x"]
    except KeyError as error:
        raise RuntimeError("outer") from error


def raises_in_hook():
    def hook(kind, value, trace):
        raise LookupError("in the hook")

    sys.excepthook = hook
    raise ValueError("no good")


def hook_exits():
    sys.excepthook = lambda kind, value, trace: sys.exit(f"{kind.__name__} {trace.tb_frame.f_code.co_name}")
    raise ValueError("no good")


def interrupted():
    raise KeyboardInterrupt


def interrupted_by_signal():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


def system_exit_in_thread():
    thread = threading.Thread(target=lambda: sys.exit(4))
    thread.start()
    thread.join()
    print("main goes on")


def raises_in_thread():
    thread = threading.Thread(target=raises, name="worker")
    thread.start()
    thread.join()


def thread_outlives():
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread ended"))).start()
    atexit.register(print, "at exit")
    print("main ended")


def leaves_at_once():
    atexit.register(print, "never said")
    os._exit(5)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def aborted():
    os.abort()


def terminated():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


def atexit_raises():
    atexit.register(lambda: 1 / 0)
    atexit.register(print, "said first")


def recurses():
    sys.setrecursionlimit(60)

    def deeper():
        deeper()

    try:
        deeper()
    except RecursionError:
        print("caught")


def base_exception():
    class Odd(BaseException):
        pass

    raise Odd("odd")


def finalized():
    global last
    last = Last("a global")


def stdout_closed():
    sys.stdout.close()


if __name__ == "__main__":
    globals()[sys.argv[1]]()

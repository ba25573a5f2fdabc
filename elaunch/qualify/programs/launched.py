"""The ranks of the cells about launches; without torch. ``launched WAIT WORLD | EXIT CODE [GENERATION]``.

``wait N`` ends once the world has N ranks; ``exit CODE G`` has rank 1 (or the only one) exit with CODE in generation G.
"""

import sys
import time

import elaunch
from elaunch.qualify.programs.machine import tell_machine
from elaunch.qualify.programs.telling import GENERATION, HOST, LOCAL_RANK, RANK, WORLD, path, tell

how, number = sys.argv[1], int(sys.argv[2])
elaunch.step(0)
if GENERATION == 1:
    tell_machine()
tell("launched", world=WORLD, local_rank=LOCAL_RANK, host=HOST, path=path())
if how == "exit":
    if min(1, WORLD - 1) == RANK and (number == 0 or len(sys.argv) < 4 or int(sys.argv[3]) >= GENERATION):
        sys.exit(number)
    if number and (len(sys.argv) < 4 or int(sys.argv[3]) >= GENERATION):
        time.sleep(60)  # whoever fails ends this one
elif how == "wait" and number > WORLD:
    step = 0
    while True:  # the next generation ends this one
        step += 1
        elaunch.step(step)
        time.sleep(0.02)
elaunch.step(1)

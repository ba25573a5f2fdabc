"""The spawner process: started by its path with ``python -u``, as bare as a plain start of a user's program.

Arguments: descriptor of the agent's socket, descriptor of the deadline page, ``warm`` or ``exec``, modules to preload,
and room for the command lines of forked ranks. It forks ranks and is the dead-man's switch (elaunch/agent/nursery.py).
A forked rank comes back to this file's last lines, unwound from everything, and ends as the interpreter itself ends a
program.
"""

import sys

BARE = frozenset(sys.modules)


def _open_package() -> None:
    """Make this elaunch importable, whatever sys.path would offer, and leave sys.path as site made it."""
    import importlib.util
    import os

    here = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == here:
        del sys.path[0]
    package = os.path.dirname(here)
    spec = importlib.util.spec_from_file_location(
        "elaunch", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["elaunch"] = module
    spec.loader.exec_module(module)


def _main() -> None:
    from elaunch.agent.serving import main

    # In a local variable: what a global one held would keep a rank's __main__ alive when it is finalized.
    rank = main(sys.argv[1:], BARE)
    if rank is not None:
        rank()


if __name__ == "__main__":
    _open_package()
    _main()

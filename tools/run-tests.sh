#!/usr/bin/env bash
# All tests: those of values and of etcd side by side, then those that start jobs, one at a time with the machine to
# themselves. Both parts run, whatever the first comes to.
# Usage: run-tests.sh PYTHON [PYTEST FLAG ...]
set -uo pipefail
python=$1
shift
readonly NONE_SELECTED=5

first=0 second=0
"$python" -m pytest -n 2 tests/unit tests/etcd "$@" || first=$?
"$python" -m pytest tests --ignore tests/unit --ignore tests/etcd "$@" || second=$?
for code in "$first" "$second"; do
    [ "$code" = 0 ] || [ "$code" = "$NONE_SELECTED" ] || exit "$code"
done
[ "$first" = 0 ] || exit "$second"

#!/usr/bin/env bash
# All tests, in parts: those of values and of etcd; those that start jobs; those that start a whole cluster; and those that
# need the machine to themselves. All parts run, whatever one comes to.
# Usage: run-tests.sh PYTHON [PYTEST FLAG ...]
set -uo pipefail
python=$1
shift
readonly NONE_SELECTED=5
readonly PROCESSORS=2
export ELAUNCH_TESTS_MAY_BUILD=1   # the servers of Kubernetes, once, where a test that needs them is to run
unset PYTHONDONTWRITEBYTECODE # pytest keeps what it makes of the tests' files for the next process
codes=() took=()

part() {
    local name=$1 began=$SECONDS code=0
    shift
    echo "== tests: $name ($(date +%T))"
    "$python" -m pytest "$@" || code=$?
    codes+=("$code")
    took+=("$(printf '%-9s %2d:%02d min' "$name" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)))")
}

"$python" -m compileall -q elaunch tests # also where the environment keeps processes from writing bytecode
# One more than there are processors: much of a test of etcd is waiting.
part fast -n $((PROCESSORS + 1)) tests/unit tests/etcd "$@"
part together -n "$PROCESSORS" --dist loadscope --part together tests "$@"
part clusters --part clusters tests "$@" # one after the other: a cluster that is kept waiting gives its nodes up
part alone --part alone tests "$@"

printf 'tests, %s\n' "${took[@]}" "$(printf '%-9s %2d:%02d min' all $((SECONDS / 60)) $((SECONDS % 60)))"
for code in "${codes[@]}"; do
    [ "$code" = 0 ] || [ "$code" = "$NONE_SELECTED" ] || exit "$code"
done
for code in "${codes[@]}"; do
    [ "$code" = "$NONE_SELECTED" ] || exit "$code"
done
exit "$NONE_SELECTED"

#!/usr/bin/env bash
# make-venv.sh PYTHON DIRECTORY PIP-ARGUMENTS...: make a virtual environment (or bring it up to date), and mark it made.
set -euo pipefail
python=$1 venv=$2
shift 2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "elaunch needs Python 3.10 or newer; $python is $("$python" --version 2>&1). Try: make PYTHON=/path/to/python3" >&2
    exit 2
fi
if ! "$python" -c 'import ensurepip' 2>/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq -o Acquire::Retries=5 &&
        apt-get install -y -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 --no-install-recommends python3-venv
fi
echo "making $venv: installing $*"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 10 "$@"
touch "$venv/made"

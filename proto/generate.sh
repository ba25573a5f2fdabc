#!/bin/sh
# Regenerate elaunch/proto/ from proto/. With --check, fail if what is committed is not current.
# PYTHON must have grpcio-tools 1.62.3: code of that release runs on protobuf 4.25 to 7.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
WANTED=1.62.3

have=$("$PYTHON" -c 'from importlib.metadata import version; print(version("grpcio-tools"))' 2>/dev/null || echo none)
if [ "$have" != "$WANTED" ]; then
    echo "proto/generate.sh: needs grpcio-tools $WANTED, $PYTHON has $have: pip install grpcio-tools==$WANTED" >&2
    exit 2
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$PYTHON" -m grpc_tools.protoc -I proto --python_out="$out" --pyi_out="$out" \
    etcd/v3/rpc.proto elaunch/v1/control.proto
"$PYTHON" -m grpc_tools.protoc -I proto --grpc_python_out="$out" elaunch/v1/control.proto
# protoc writes imports relative to proto/; the package lies below elaunch.proto.
find "$out" -name '*.py' -o -name '*.pyi' | while read -r file; do
    sed -i -E 's/^from (elaunch|etcd)\.v([0-9]+) import/from elaunch.proto.\1.v\2 import/' "$file"
done
for package in etcd etcd/v3 elaunch elaunch/v1; do : >"$out/$package/__init__.py"; done

if [ "${1:-}" = --check ]; then
    for package in etcd elaunch; do
        diff -ru --exclude=__pycache__ "elaunch/proto/$package" "$out/$package" || {
            echo "elaunch/proto/$package is not current: run proto/generate.sh" >&2
            exit 1
        }
    done
    exit 0
fi
for package in etcd elaunch; do
    rm -rf "elaunch/proto/$package"
    cp -R "$out/$package" "elaunch/proto/$package"
done

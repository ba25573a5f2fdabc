#!/usr/bin/env bash
# Install the system packages that the tests use. Without the right to do that, say what is missing and go on: the tests
# that need it are skipped, and say so.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
declare -A package=(
    [ip]=iproute2 [sshd]=openssh-server [ssh]=openssh-client
    [slurmctld]=slurmctld [slurmd]=slurmd [munged]=munge [srun]=slurm-client
    [kubectl]=kubernetes-client [chromium]=chromium [prometheus]=prometheus [systemd-analyze]=systemd
    [etcdctl]=etcd-client [man]=man-db [groff]=groff [zsh]=zsh [fish]=fish
)

missing=()
for command in "${!package[@]}"; do
    command -v "$command" >/dev/null || missing+=("${package[$command]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq -o Acquire::Retries=5
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 \
        --no-install-recommends "${missing[@]}"
else
    echo "not installed, and not ours to install: ${missing[*]}; some tests will be skipped"
fi

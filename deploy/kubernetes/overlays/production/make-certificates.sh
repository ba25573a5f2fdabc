#!/bin/bash
# The Secrets of the production overlay, for those without a certificate authority of their own in the cluster:
#   ./make-certificates.sh [NAMESPACE] [FOLDER]
# makes an authority in FOLDER (keep it; it is not put into the cluster), signs with it, and creates
#   elaunch-etcd-server   etcd, for its clients and its peers
#   elaunch-etcd-client   controllers and jobs, to show to etcd
#   elaunch-job           agents and controllers, among each other (for DNS:elaunch)
# With APPLY=no it only writes files.
set -euo pipefail
namespace=${1:-elaunch-system}
folder=${2:-elaunch-certificates}
umask 077
mkdir -p "$folder"
cd "$folder"

if [ ! -e ca.key ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=elaunch-authority \
        -keyout ca.key -out ca.crt 2>/dev/null
fi

sign() { # NAME NAMES
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout "$1.key" -out "$1.csr" 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out "$1.crt" 2>/dev/null -extfile \
        <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$2")
    rm "$1.csr"
}

sign elaunch-etcd-server "DNS:*.elaunch-etcd.$namespace.svc,DNS:elaunch-etcd.$namespace.svc,DNS:localhost,IP:127.0.0.1"
sign elaunch-etcd-client DNS:elaunch-client
sign elaunch-job DNS:elaunch

[ "${APPLY:-yes}" = yes ] || exit 0
for secret in elaunch-etcd-server elaunch-etcd-client elaunch-job; do
    kubectl create secret generic "$secret" --namespace="$namespace" --type=kubernetes.io/tls --dry-run=client -o yaml \
        --from-file=tls.crt="$secret.crt" --from-file=tls.key="$secret.key" --from-file=ca.crt=ca.crt | kubectl apply -f -
done

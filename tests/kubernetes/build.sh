#!/usr/bin/env bash
# Build the servers of Kubernetes 1.20.2 that tests/kubernetes starts, where they are missing: no package holds them, but
# Debian's source package of kubectl is the whole tree. Once, in 4 minutes on two idle cores, 25 on a loaded machine.
#
# They go into ${ELAUNCH_TEST_CACHE:-~/.cache/elaunch-tests}/kubernetes-1.20.2/bin. What else the build leaves is removed,
# unless ELAUNCH_TEST_KEEP_BUILD is set. Exits with 3 where this machine cannot, and says why in one line, which is
# also kept for the tests.
set -euo pipefail
readonly VERSION=1.20.2 CANNOT=3 NEEDED_MB=6000
readonly SERVERS=(kube-apiserver kube-controller-manager kube-scheduler)
readonly GO_PACKAGES=(golang-go golang-github-modern-go-reflect2-dev dpkg-dev)
home=${ELAUNCH_TEST_CACHE:-$HOME/.cache/elaunch-tests}/kubernetes-$VERSION

say() { printf '%s kubernetes: %s\n' "$(date +%T)" "$*"; }

cannot() {
    printf '%s\n' "$*" >"$home/why-not"
    say "not built: $*"
    exit $CANNOT
}

complete() {
    for server in "${SERVERS[@]}"; do [ -x "$home/bin/$server" ] || return 1; done
}

clean() {
    rm -f "$home/why-not"
    [ -n "${ELAUNCH_TEST_KEEP_BUILD:-}" ] && return
    chmod -R u+w "$home/gopath" 2>/dev/null || :
    rm -rf "$home"/{apt,gopath,gocache,new,build.log} "$home/bin/openapi-gen" "$home"/kubernetes_*
}

# The system's own sources, with the packages' sources among them, in folders of our own: nothing of the system's changes.
private_apt() {
    apt-get -o Dir::Etc::SourceList="$home/apt/sources.list" -o Dir::Etc::SourceParts="$home/apt/parts" \
        -o Dir::State::Lists="$home/apt/lists" -o Dir::Cache="$home/apt/cache" -o APT::Sandbox::User=root "$@"
}

fetch() {
    mkdir -p "$home"/apt/{parts,lists/partial,cache/archives/partial}
    if [ -f /etc/apt/sources.list ]; then
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$home/apt/sources.list"
    fi
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] && sed 's/^Types: deb$/Types: deb-src/' "$file" >"$home/apt/parts/${file##*/}"
    done
    private_apt update -qq || :  # not every source has sources
    (cd "$home" && private_apt source --download-only -qq kubernetes >/dev/null) ||
        cannot "this system has no source package kubernetes"
    compgen -G "$home/kubernetes_*$VERSION*.orig.tar.*" >/dev/null ||
        cannot "the source package kubernetes of this system is not $VERSION"
}

unpack() {
    mkdir -p "$tree"
    tar xf "$home"/kubernetes_*"$VERSION"*.orig.tar.* -C "$tree" --strip-components=1
    # The reflect2 that the tree holds crashes when built with Go 1.18 or newer: Debian's does not.
    local reflect=/usr/share/gocode/src/github.com/modern-go/reflect2
    rm -rf "$tree/vendor/github.com/modern-go/reflect2"
    cp -rL "$reflect" "$tree/vendor/github.com/modern-go/reflect2"
    generate
    touch "$home/gopath/unpacked"
}

# The one file that the tree lacks: what the OpenAPI of all types is.
generate() {
    go build -o "$home/new/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    local types
    types=$(grep -rl --include='*.go' '+k8s:openapi-gen=true' pkg staging/src/k8s.io |
        grep -Ev 'code-generator|sample-|/testdata/|_test.go' | xargs -n1 dirname | sort -u |
        sed -e 's#^staging/src/#k8s.io/kubernetes/vendor/#' -e 's#^pkg/#k8s.io/kubernetes/pkg/#' | paste -sd,)
    GOROOT=$(go env GOROOT) "$home/new/openapi-gen" --logtostderr -i "$types" \
        -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
        -h "$tree/hack/boilerplate/boilerplate.generatego.txt" -r "$home/new/violations" --output-base "$home/gopath/src"
}

build() {
    local flags="-s -w" package
    for package in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=v$VERSION -X $package.gitMajor=1 -X $package.gitMinor=20"
        flags+=" -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"
    done
    for server in "${SERVERS[@]}"; do
        [ -x "$home/bin/$server" ] && continue
        say "compiling $server"
        go build -p 2 -ldflags "$flags" -o "$home/new/$server" "k8s.io/kubernetes/cmd/$server"
        mv "$home/new/$server" "$home/bin/$server"
    done
}

if complete && ! ls "$home" | grep -qvx 'bin\|lock'; then exit 0; fi
mkdir -p "$home"
exec 9>"$home/lock"
flock -n 9 || { say "another build is at work; waiting for it"; flock 9; }
complete && { clean; exit 0; }

[ "$(id -u)" = 0 ] || cannot "compiling it needs packages that only root can install"
command -v apt-get >/dev/null || cannot "there is no apt-get: it is built from Debian's source package"
[ "$(df --output=avail -m "$home" | tail -1)" -ge $NEEDED_MB ] || cannot "less than $NEEDED_MB MB are free in $home"
say "$VERSION is built once, in some minutes, into $home/bin"
apt-get update -qq || cannot "the lists of packages cannot be fetched"
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${GO_PACKAGES[@]}" >/dev/null 2>&1 ||
    cannot "these packages cannot be installed: ${GO_PACKAGES[*]}"
mkdir -p "$home"/{bin,new}
tree=$home/gopath/src/k8s.io/kubernetes
# As Debian's own rules build it: without modules, in a tree that has to be where GOPATH says and the current folder.
export GO111MODULE=off GOFLAGS=-trimpath CGO_ENABLED=0 GOPATH=$home/gopath GOCACHE=$home/gocache
say "fetching and unpacking the source"
[ -e "$home/gopath/unpacked" ] || fetch
mkdir -p "$tree" && cd "$tree"
set +e  # in a condition, set -e would hold for nothing inside
(
    set -e
    [ -e "$home/gopath/unpacked" ] || unpack
    build
) 2>"$home/build.log" 9>&-
code=$?
set -e
[ $code = 0 ] || cannot "the build failed; $home/build.log ends with: $(tail -1 "$home/build.log")"
cd "$home"
clean
say "built"

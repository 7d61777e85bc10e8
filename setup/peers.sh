#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the programs that `./bicast experiment peers` compares with this product, at pinned versions, into build/peers:
#
#   wireguard-go                     userspace WireGuard
#   engarde-client, engarde-server   copies of WireGuard's packets over each path
#   mqvpn                            multipath QUIC
#
#   setup/peers.sh [NAME...]    builds those that are missing: wireguard-go, engarde, mqvpn (default: all)
#
# The sources are GitHub's. With BICAST_MIRROR=DIRECTORY they are its clones OWNER+NAME/repo. mqvpn needs cmake, a C++
# compiler and libevent-dev. A program that cannot be built is named, and the others are built.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

readonly place=$PWD/build/peers
readonly wireguard_version=v0.0.0-20260522210424-ecfc5a8d5446
readonly engarde_commit=95ac5bf96da85356a7173196125210051965ec2c
readonly mqvpn_commit=81dc060 # 0.13.4, without the scheduler `redundant` of 0.18
readonly xquic_commit=fa7e7d65bf6c56f66f62c5bd5d9347f08bdd085c
readonly boringssl_commit=8b43ff0f72137b31b23d482f0b2344186d797b03

# source_of OWNER/NAME COMMIT DIRECTORY
source_of() {
    local from=https://github.com/$1.git
    [[ -z ${BICAST_MIRROR-} ]] || from=$BICAST_MIRROR/${1/\//+}/repo
    git clone --quiet --no-checkout "$from" "$3"
    # Mirrors lack BoringSSL's large test vectors, which no library reads.
    git -C "$3" checkout --quiet "$2" -- . ':!*/nist_cavp/*' ':!*/test-vectors.json'
}

wireguard_go() {
    GOBIN=$place setup/go.sh install "golang.zx2c4.com/wireguard@$wireguard_version"
    mv "$place/wireguard" "$place/wireguard-go"
}

engarde() {
    local end
    source_of porech/engarde "$engarde_commit" "$work/engarde"
    mkdir -p "$work/engarde/internal/assets/browser" # its page, which we do not use, needs npm
    touch "$work/engarde/internal/assets/browser/index.html"
    for end in client server; do
        setup/go.sh -C "$work/engarde" build -mod=vendor -o "$place/engarde-$end" "./cmd/engarde-$end"
    done
}

mqvpn() {
    local tree=$work/mqvpn jobs
    jobs=$(nproc)
    source_of mp0rta/mqvpn "$mqvpn_commit" "$tree"
    source_of mp0rta/xquic "$xquic_commit" "$tree/third_party/xquic"
    source_of google/boringssl "$boringssl_commit" "$tree/third_party/xquic/third_party/boringssl"
    local quic=$tree/third_party/xquic ssl=$tree/third_party/xquic/third_party/boringssl
    cmake -S "$ssl" -B "$ssl/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-fPIC -DCMAKE_CXX_FLAGS=-fPIC
    make -C "$ssl/build" -j"$jobs" ssl crypto
    cmake -S "$quic" -B "$quic/build" -DCMAKE_BUILD_TYPE=Release -DSSL_TYPE=boringssl -DSSL_PATH="$ssl" \
        -DXQC_ENABLE_BBR2=ON -DXQC_ENABLE_UNLIMITED=ON -DXQC_ENABLE_FEC=ON -DXQC_ENABLE_XOR=ON
    make -C "$quic/build" -j"$jobs"
    cmake -S "$tree" -B "$tree/build" -DCMAKE_BUILD_TYPE=Release -DXQUIC_BUILD_DIR="$quic/build" \
        -DMQVPN_ENABLE_HYBRID_TCP_LANE=OFF # its lwIP is a submodule that mirrors lack
    make -C "$tree/build" -j"$jobs" mqvpn
    mv "$tree/build/mqvpn" "$place/mqvpn"
}

build() {
    case $1 in
    wireguard-go) wireguard_go ;;
    engarde) engarde ;;
    mqvpn) mqvpn ;;
    *)
        echo "$1 is none of wireguard-go, engarde and mqvpn"
        return 1
        ;;
    esac
}

mkdir -p "$place"
work=$(mktemp --directory "$place/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
names=("$@")
((${#names[@]})) || names=(wireguard-go engarde mqvpn)
code=0
for name in "${names[@]}"; do
    [[ ! -x $place/${name/%engarde/engarde-server} ]] || continue
    log=$place/$name.log
    echo "peers: building $name; its log is $log" >&2
    set +e # `set -e` does not hold behind `||` or `if`
    (
        set -e
        build "$name"
    ) >"$log" 2>&1
    built=$?
    set -e
    if ((built)); then
        echo "peers: $name was not built: $(tail -n1 "$log")" >&2
        code=1
    fi
done
exit "$code"

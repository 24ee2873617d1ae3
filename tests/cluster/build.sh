#!/usr/bin/env bash
# A Kubernetes 1.20.2 control plane, hollow nodes and what real ones need, built from Debian 12's source
# package: no container, no binary of a release. Some seven minutes of two cores, 3 GB while it builds,
# 500 MB kept in the cache. Needs root (Debian packages). Builds only what the cache does not have.
#
# Source: https://packages.debian.org/source/bookworm/kubernetes; hollow nodes are upstream's kubemark.
set -euo pipefail
version=1.20.2
kept="${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/kubernetes-$version"
wanted=(kube-apiserver kube-controller-manager kube-scheduler kubemark kubelet kube-proxy)

mkdir -p "$kept"
exec 9>"$kept/.lock"
flock 9
missing=()
for each in "${wanted[@]}"; do [ -x "$kept/$each" ] || missing+=("$each"); done
command -v etcd >/dev/null || apt-get install -y -qq --no-install-recommends etcd-server >/dev/null
[ ${#missing[@]} -gt 0 ] || exit 0

apt-get install -y -qq --no-install-recommends \
  golang-1.19-go golang-github-modern-go-reflect2-dev dpkg-dev make rsync >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Sources from where the packages come from, in lists of our own: the machine's stay as they are.
mkdir -p lists/partial parts
shopt -s nullglob
for each in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  sed -n 's/^deb \(.*debian.*\)/deb-src \1/p' "$each" 2>/dev/null || true
done >parts/sources.list
for each in /etc/apt/sources.list.d/*.sources; do
  if grep -q '^URIs:.*debian' "$each"; then
    sed 's/^Types:.*/Types: deb-src/' "$each" >"parts/$(basename "$each")"
  fi
done
apt=(apt-get -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$work/parts"
  -o "Dir::State::lists=$work/lists")
"${apt[@]}" update -qq
"${apt[@]}" source -qq --download-only kubernetes >/dev/null
dpkg-source -x kubernetes_*.dsc k8s >/dev/null
cd k8s

# The reflect2 in vendor/ crashes with Go 1.18 and later; Debian's own does not.
reflect=vendor/github.com/modern-go/reflect2
rm "$reflect"/*.go "$reflect"/*.s
cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$reflect"/
rm -f "$reflect"/*_test.go
mkdir -p .go/src/k8s.io
ln -sfn ../../.. .go/src/k8s.io/kubernetes
cat >../version <<END
KUBE_GIT_COMMIT='debian'
KUBE_GIT_TREE_STATE='archive'
KUBE_GIT_VERSION='v$version'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
END
PATH=/usr/lib/go-1.19/bin:$PATH GOPATH="$PWD/.go" GOCACHE="$work/gocache" CGO_ENABLED=0 GOFLAGS='' \
  GOPROXY=off make WHAT="${missing[*]/#/cmd/}" KUBE_GIT_VERSION_FILE="$work/version" >/dev/null
for each in "${missing[@]}"; do
  cp "_output/bin/$each" "$kept/.$each"
  mv "$kept/.$each" "$kept/$each"
done

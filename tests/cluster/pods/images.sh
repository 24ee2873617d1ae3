#!/usr/bin/env bash
# Images for nodes without a registry: a base made of Debian packages, the project's own by
# deploy/images/build.sh over it, and what stands beside them. As root.
#   tests/cluster/pods/images.sh [PART...]     all parts by default; only what has changed is built
# They are kept as archives in the cache; ctr imports them. Once some ten minutes, then seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../../.." && pwd)
kept="${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/images"
base=docker.io/library/python:3.11.11-slim-bookworm  # what the Dockerfiles ask for
mkdir -p "$kept"/{archives,store,run}
exec 9>"$kept/.lock"
flock 9
# skip_mount_home: otherwise a mount of the store stays behind.
store=(--root "$kept/store" --runroot "$kept/run" --storage-driver overlay --storage-opt overlay.skip_mount_home=true)
bud() { buildah "${store[@]}" "$@" 9>&-; }
# A build that was killed leaves its containers, and their mounts.
unmounted() {
  local each
  bud rm --all >/dev/null 2>&1 || true
  for each in $(cut -d' ' -f2 /proc/mounts | grep "^$kept/store" | sort -r); do umount "$each" || true; done
}
unmounted
trap unmounted EXIT
there() { bud inspect --type image "$1" >/dev/null 2>&1; }

# Archives are named by what is in them, so that who imported one knows whether it is another now.
archive() { # IMAGE NAME
  local digest kept_as="$kept/archives/$2"
  digest=$(bud inspect --type image --format '{{.FromImageID}}' "$1")
  [ "$(cat "$kept_as.id" 2>/dev/null)" != "$digest" ] || return 0
  rm -f "$kept_as.tar" "$kept_as.id"
  bud push -q "$1" "docker-archive:$kept_as.tar:$1"  # not compressed: seconds where oci-archive takes minutes
  echo "$digest" >"$kept_as.id"
}

if ! there "$base"; then
  folder=$(mktemp -d)
  # Debian's Python stands in for that of /usr/local in the image of Docker's library.
  mmdebstrap --quiet --variant=minbase --include=ca-certificates,netbase,tzdata,python3,python3-venv \
    --aptopt='APT::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"; ln -s /usr/bin/python3 "$1/usr/local/bin/python3"' \
    bookworm "$folder/base.tar"
  printf '%s\n' 'FROM scratch' 'ADD base.tar /' \
    'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8' >"$folder/Dockerfile"
  bud bud -q --isolation chroot --layers=false -t "$base" "$folder" >/dev/null
  rm -rf "$folder"
fi
if ! there localhost/pause:1; then
  folder=$(mktemp -d)
  gcc -Os -s -static -o "$folder/pause" "$here/pause.c"
  printf 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n' >"$folder/Dockerfile"
  bud bud -q --isolation chroot -t localhost/pause:1 "$folder" >/dev/null
  rm -rf "$folder"
fi
archive localhost/pause:1 pause
if ! there localhost/prometheus:1; then
  folder=$(mktemp -d)
  cp "$(command -v prometheus)" "$folder/"
  printf 'FROM %s\nCOPY prometheus /usr/bin/\nUSER 65534:65534\nENTRYPOINT ["prometheus"]\n' "$base" >"$folder/Dockerfile"
  bud bud -q --isolation chroot -t localhost/prometheus:1 "$folder" >/dev/null
  rm -rf "$folder"
fi
archive localhost/prometheus:1 prometheus

# The build's pip trusts what this machine trusts, and sees the wheels that this machine's pip sees.
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\n' >"$kept/pip.conf"
options="--isolation chroot --pull-never -v /etc/ssl/certs:/etc/ssl/certs:ro -v $kept/pip.conf:/etc/pip.conf:ro"
if [ -d "${PIP_FIND_LINKS:-}" ]; then
  options+=" -v $PIP_FIND_LINKS:/opt/find-links:ro"
  export PIP_OPTIONS="--find-links /opt/find-links"
fi
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(collector watch dashboard nodes workloads)

# What goes into the images, with times and modes of its own: a fresh clone of the same content is
# the same, and where only our code has changed, layers of dependencies are taken from the store.
staged=$kept/staged
rm -rf "$staged"
mkdir "$staged"
(cd "$checkout" && git ls-files -z -- .dockerignore pyproject.toml README.md LICENSE constraints.txt locks \
  lockstep dashboard analyzer workloads collector grafana bench evaluation watch deploy/runbooks deploy/images |
  xargs -0 cp --parents --no-dereference --target-directory="$staged")
chmod -R u=rwX,go=rX "$staged"
find "$staged" -exec touch --no-dereference --date=@0 {} +
content() { # PART: of what its image is made
  { bud inspect --type image --format '{{.FromImageID}}' "$base"
    cd "$staged"
    find . -type f -not -path './deploy/images/*/*' -print0 | sort -z | xargs -0 sha256sum
    sha256sum "deploy/images/$1/Dockerfile"
  } | sha256sum
}
built() { # PART NAME OPTION...
  local part=$1 registry=$2; shift 2
  REGISTRY=$registry BASE=$base ENGINE="buildah ${store[*]}" ENGINE_OPTIONS="$options $*" \
    "$staged/deploy/images/build.sh" "$part" >"$kept/$part.log" 2>&1 9>&- \
    || { tail -20 "$kept/$part.log" >&2; exit 1; }
}
changed=
for part in "${parts[@]}"; do
  now=$(content "$part")
  [ "$now" != "$(cat "$kept/archives/lockstep-$part.content" 2>/dev/null)" ] || continue
  changed=1
  built "$part" localhost/dependencies --target dependencies  # a name keeps these layers from the pruning
  built "$part" localhost
  archive "localhost/lockstep-$part:0.2.0" "lockstep-$part"
  echo "$now" >"$kept/archives/lockstep-$part.content"
done
rm -rf "$staged"
# Layers of earlier builds that no image has: some gigabytes an hour of work.
[ -z "$changed" ] || bud rmi --prune >/dev/null
[ ${#parts[@]} -lt 5 ] || touch "$kept/complete"  # where a first build was cut off, tests are skipped

#!/usr/bin/env bash
# Builds the images, by docker or, where there is none, by buildah: make images, or
#   [REGISTRY=NAME] [BASE=IMAGE] [PIP_OPTIONS=...] [ENGINE=...] [ENGINE_OPTIONS=...] deploy/images/build.sh [PART...]
# They are named [REGISTRY/]lockstep-PART:VERSION. Nothing is pushed.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
revision=$(git rev-parse HEAD 2>/dev/null || true)
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(collector watch dashboard nodes workloads)

engine=${ENGINE:-}
if [ -z "$engine" ]; then
  if command -v docker >/dev/null; then engine=docker
  elif command -v buildah >/dev/null; then engine=buildah
  else echo 'neither docker nor buildah is here: apt install buildah' >&2; exit 69; fi
fi
# Health checks are of docker's format; buildah's own has none.
build=(build)
case $engine in *buildah*) build=(build --format docker --layers) ;; esac

for part in "${parts[@]}"; do
  options=()
  [ -z "${BASE:-}" ] || options+=(--build-arg "BASE=$BASE")
  [ "$part" != workloads ] || [ -z "${PIP_OPTIONS:-}" ] || options+=(--build-arg "PIP_OPTIONS=$PIP_OPTIONS")
  # shellcheck disable=SC2086  # words of a command
  $engine "${build[@]}" ${ENGINE_OPTIONS:-} "${options[@]}" --build-arg "REVISION=$revision" \
    -f "deploy/images/$part/Dockerfile" -t "${REGISTRY:+$REGISTRY/}lockstep-$part:$version" .
done

#!/bin/sh
# Builds the container image: build-image.sh IMAGE [options of the builder's `build`]
# with docker, podman or buildah, whichever works here; BUILDER chooses, options included.
# Reads the Dockerfile of the current folder.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 IMAGE [build options]" >&2; exit 2; }
image=$1
shift

works() { command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1; }

if [ -z "${BUILDER:-}" ]; then
  for candidate in docker podman buildah; do
    if works "$candidate"; then BUILDER=$candidate; break; fi
  done
fi
[ -n "${BUILDER:-}" ] || {
  echo "no working docker, podman or buildah here; on Debian or Ubuntu: apt-get install buildah" >&2
  exit 1
}
echo "building $image with $BUILDER"
# BUILDER may hold options: split on purpose.
# shellcheck disable=SC2086
exec $BUILDER build -t "$image" "$@" .

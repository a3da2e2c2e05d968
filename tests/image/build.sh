#!/usr/bin/env bash
# Builds the image agentstore-postgres:VERSION (15, if none is given) from Debian
# packages. Does nothing when the image is there and was made from these files, or
# when the official one is there.
set -euo pipefail
cd "$(dirname "$0")"
. ./debian.sh

version=${1:-15}
suite=$(debian_suite "$version")
image=agentstore-postgres:$version
inputs=$(cat Dockerfile entrypoint.sh build.sh debian.sh | sha256sum | cut -d' ' -f1)
official=postgres:$version-alpine
if docker image inspect "$official" > /dev/null 2>&1; then
	echo "$official is there, and the tests prefer it"
	exit 0
fi
if [ "$(docker image inspect --format '{{index .Config.Labels "agentstore.inputs"}}' "$image" 2>/dev/null || true)" = "$inputs" ]; then
	echo "$image is current"
	exit 0
fi

debian_install mmdebstrap
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp Dockerfile entrypoint.sh "$context"
# Documentation, manuals and translations are half of the size, and of no use.
debian_bootstrap minbase "postgresql-$version" "$suite" "$context/rootfs.tar" \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*'
docker build --quiet --build-arg "VERSION=$version" --label "agentstore.inputs=$inputs" --tag "$image" "$context"
echo "$image is built"

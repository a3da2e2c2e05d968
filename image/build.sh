#!/usr/bin/env bash
# Builds the image agentstore-postgres:15 from Debian packages. Does nothing when
# the image is there and was made from these files.
set -euo pipefail
cd "$(dirname "$0")"

image=agentstore-postgres:15
inputs=$(cat Dockerfile entrypoint.sh build.sh | sha256sum | cut -d' ' -f1)
if [ "$(docker image inspect --format '{{index .Config.Labels "agentstore.inputs"}}' "$image" 2>/dev/null || true)" = "$inputs" ]; then
	echo "$image is current"
	exit 0
fi

if ! command -v mmdebstrap > /dev/null; then
	if [ "$(id -u)" != 0 ]; then
		echo "mmdebstrap is missing: install it, or run this as root" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y mmdebstrap
fi

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp Dockerfile entrypoint.sh "$context"
# Documentation, manuals and translations are half of the size, and of no use.
mmdebstrap --quiet --variant=minbase --include=postgresql-15 \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--aptopt='APT::Install-Recommends "false"' \
	bookworm "$context/rootfs.tar"
docker build --quiet --label "agentstore.inputs=$inputs" --tag "$image" "$context"
echo "$image is built"

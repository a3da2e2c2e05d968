#!/usr/bin/env bash
# Installs what the tests start by themselves and a new machine lacks: PostgreSQL's
# server binaries, PgBouncer, and libfaketime for a server whose clock steps. Where it may not, the tests that need them say so.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || command -v initdb > /dev/null || missing+=(postgresql)
command -v pgbouncer > /dev/null || compgen -G '/usr/sbin/pgbouncer' > /dev/null || missing+=(pgbouncer)
compgen -G '/usr/lib*/*/faketime/libfaketime.so.1' > /dev/null || compgen -G '/usr/lib*/faketime/libfaketime.so.1' > /dev/null || missing+=(faketime)
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if ! command -v apt-get > /dev/null || [ "$(id -u)" -ne 0 ]; then
	echo "tests: ${missing[*]} cannot be installed here without root and apt-get; tests that need it will fail" >&2
	exit 0
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y "${missing[@]}"

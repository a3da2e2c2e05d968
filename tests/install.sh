#!/usr/bin/env bash
# Installs the programs that the tests start, if they are missing. It says first what it
# installs, from where, and why. If it lacks the right to install, it prints the command
# to run and continues: the tests that need a program fail and name it.
set -euo pipefail

missing=()
reasons=
# need PACKAGES REASON PLACE… notes that the packages are missing if none of the places
# (names of programs, or patterns of paths) exists.
need() {
	local packages=$1 reason=$2 place
	shift 2
	for place in "$@"; do
		if command -v "$place" > /dev/null || compgen -G "$place" > /dev/null; then
			return
		fi
	done
	read -ra words <<< "$packages"
	missing+=("${words[@]}")
	reasons+="  $packages: $reason"$'\n'
}
need postgresql "for servers that tests configure, kill or copy, even if the others run in containers" \
	initdb '/usr/lib/postgresql/*/bin/initdb'
need pgbouncer "for tests of the store behind a pooler" \
	pgbouncer /usr/sbin/pgbouncer
need faketime "libfaketime, for servers whose clock steps" \
	'/usr/lib*/*/faketime/libfaketime.so.1' '/usr/lib*/faketime/libfaketime.so.1'
need "gcc libc6-dev" "for the race detector" \
	gcc clang
need chromium "a browser that reads events (414 MB)" \
	chromium chromium-browser google-chrome
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi

without() {
	{
		echo "tests: $1. The tests need:"
		printf '%s' "$reasons"
		echo "To install them: $2"
		echo "Continuing without them: the tests that need them fail."
	} >&2
	exit 0
}
if ! command -v apt-get > /dev/null; then
	without "nothing was installed, because this system has no apt-get" \
		"use this system's package manager; Debian's names are ${missing[*]}"
fi
command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	without "nothing was installed, because that needs root" "sudo sh -c '$command'"
fi
sources=$(grep -rhv '^ *#' /etc/apt/sources.list* 2> /dev/null | grep -oE '[a-z+]+://[^] ]+' | sort -u | paste -sd ' ' || true)
echo "tests: installing with apt-get, from ${sources:-the sources of this machine}, for the tests only:"
printf '%s' "$reasons"
echo "(Debian also starts PostgreSQL and PgBouncer as services, which the tests do not use.)"
if ! (export DEBIAN_FRONTEND=noninteractive && apt-get update -q && apt-get install -q -y --no-install-recommends "${missing[@]}"); then
	without "apt-get failed (see above)" "$command"
fi

#!/usr/bin/env bash
# Unpacks the server binaries of a major version of PostgreSQL, with all that they
# need of their own suite, beside what is installed, and prints the directory of
# initdb and postgres. A second run finds them there.
#
#	binaries.sh VERSION
#
# They go to AGENTSTORE_POSTGRESQL_DIR, or to a cache: not into the tree, because
# the user that a server runs as may not look into everybody's trees.
set -euo pipefail
cd "$(dirname "$0")"
. ./debian.sh

version=${1:?which version?}
suite=$(debian_suite "$version")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/agentstore/postgresql
if [ "$(id -u)" = 0 ]; then
	cache=/var/cache/agentstore/postgresql
fi
cache=${AGENTSTORE_POSTGRESQL_DIR:-$cache}
inputs=$(cat binaries.sh debian.sh | sha256sum | cut -c1-12)
root=$cache/$version-$inputs
bin=$root/usr/lib/postgresql/$version/bin
if [ -e "$root/complete" ]; then
	echo "$bin"
	exit 0
fi

debian_install mmdebstrap patchelf
mkdir -p "$cache"
exec 9> "$cache/$version.lock"
flock 9 # one at a time
if [ -e "$root/complete" ]; then
	echo "$bin"
	exit 0
fi
rm -rf "$root"
trap '[ -e "$root/complete" ] || rm -rf "$root"' EXIT
# Locales, for a server that speaks another language; libfaketime, for one whose
# clock steps. Both have to fit the suite's C library.
packages=postgresql-$version,locales,libfaketime
if [ "$version" -ge 18 ]; then
	packages+=,postgresql-$version-jit # older ones have it in the server's package
fi
debian_bootstrap extract "$packages" "$suite" "$root"
chmod 755 "$root"

# The programs use the loader and the libraries that lie beside them.
libraries=$(compgen -G "$root/usr/lib/*-linux-gnu*" | head -1)
[ ! -d "$root/lib" ] || [ -L "$root/lib" ] || libraries+=:$(compgen -G "$root/lib/*-linux-gnu*" | head -1)
loader=$(find "${libraries%%:*}" "${libraries##*:}" -maxdepth 1 -type f -name 'ld-[l0-9]*.so*' | head -1)
for program in "$bin"/* "$root/usr/bin/localedef"; do
	if patchelf --print-interpreter "$program" > /dev/null 2>&1; then
		patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$program"
	fi
done
# So do libraries that name a path of their own (LLVM, for jit).
IFS=: read -ra directories <<< "$libraries"
mapfile -t -O ${#directories[@]} directories < <(compgen -G "$root/usr/lib/llvm-*/lib" || true)
find "${directories[@]}" "$root/usr/lib/postgresql" -type f -name '*.so*' | while read -r library; do
	if [ -n "$(patchelf --print-rpath "$library" 2> /dev/null)" ]; then
		patchelf --force-rpath --set-rpath "$libraries" "$library"
	fi
done
mkdir -p "$root/usr/lib/locale"
I18NPATH=$root/usr/share/i18n "$root/usr/bin/localedef" --no-archive -i de_DE -f UTF-8 "$root/usr/lib/locale/de_DE.UTF-8" >&2
"$bin/postgres" --version >&2
touch "$root/complete"
echo "$bin"

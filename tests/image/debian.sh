# What build.sh and binaries.sh have in common; to be sourced.

# debian_suite prints the Debian suite that carries a major version of PostgreSQL.
debian_suite() {
	case $1 in
	13) echo bullseye ;;
	15) echo bookworm ;;
	17) echo trixie ;;
	18) echo forky ;;
	*)
		echo "no Debian suite carries PostgreSQL $1: 13, 15, 17 and 18 can be had. Others come as official images, where a registry answers" >&2
		return 1
		;;
	esac
}

# debian_install installs programs that are missing.
debian_install() {
	local program missing=()
	for program in "$@"; do
		command -v "$program" > /dev/null || missing+=("$program")
	done
	if [ ${#missing[@]} -eq 0 ]; then
		return
	fi
	if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
		echo "${missing[*]}: missing. Install it, or run this as root" >&2
		return 1
	fi
	{
		apt-get update -q
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y "${missing[@]}"
	} >&2
}

# debian_bootstrap VARIANT PACKAGES SUITE TARGET [OPTION …] unpacks a suite's
# packages, from the mirror that this machine uses.
debian_bootstrap() {
	local variant=$1 packages=$2 suite=$3 target=$4 codename mirror
	shift 4
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	mirror=$(apt-get indextargets --format '$(REPO_URI)' "Release: $codename" 2> /dev/null | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
	# Signatures are checked. Their dates are not: an index that was kept for some
	# weeks is good enough for a server that lives as long as a test.
	mmdebstrap --quiet --variant="$variant" --include="$packages" \
		--aptopt='APT::Install-Recommends "false"' \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		"$@" "$suite" "$target" ${mirror:+"$mirror"} >&2
}

# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts here: where things lie, and how they speak.
# shellcheck shell=bash

U4R_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
U4R_CACHE=${U4R_CACHE:-$HOME/.cache/usb4_rdma}
export U4R_TOP U4R_CACHE
mkdir -p "$U4R_CACHE"

say() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# key FILE...: a short name for what these files say, so that a changed recipe
# makes a new product beside the old one instead of reusing it.
key() { cat -- "$@" | sha256sum | cut -c1-12; }

# packages LIST: the package names in scripts/packages/LIST, comma separated.
packages() {
	sed 's/#.*//' "$U4R_TOP/scripts/packages/$1" | tr -s ' \t\n' ',' |
		sed 's/^,//; s/,$//'
}

# with_lock NAME CMD...: one builder at a time for each product of the cache.
with_lock() {
	local lock="$U4R_CACHE/.lock-$1"
	shift
	(
		flock 9 || exit 1
		# A child that lives on (a guest, say) must not keep the lock.
		"$@" 9>&-
	) 9>"$lock"
}

# need TOOL...: tools that must be on the host, installed where that is allowed.
need() {
	local missing=() tool
	for tool in "$@"; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	# Ubuntu ships mmdebstrap without the keys of Debian's archive.
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
	[ ${#missing[@]} -eq 0 ] && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing ${missing[*]}"
		apt-get update -q >/dev/null &&
			DEBIAN_FRONTEND=noninteractive apt-get install -y -q "${missing[@]}" >/dev/null && return
	fi
	die "please install: ${missing[*]}"
}

# kernel_dir: prints the directory of the lab's kernel: the stock one or, with
# U4R_DEBUG=1, the one built with KASAN and lockdep.
kernel_dir() {
	if [ "${U4R_DEBUG:-}" = 1 ]; then
		"$U4R_TOP/scripts/prepare-debug-kernel"
	else
		"$U4R_TOP/scripts/prepare-kernel"
	fi
}

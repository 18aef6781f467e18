#!/usr/bin/env sh
# Install bubblewrap for the tests of sandboxes where that is possible: as root, with apt-get.
# Elsewhere say that it is missing; the tests that need it are skipped and say so, too.
set -eu

[ "$(uname)" = Linux ] || exit 0
command -v bwrap >/dev/null 2>&1 && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests of sandboxes: bubblewrap"
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install -y -qq --no-install-recommends bubblewrap"
    $install >/dev/null 2>&1 || { apt-get update -qq && $install >/dev/null; } ||
        echo "apt-get could not install it." >&2
fi

command -v bwrap >/dev/null 2>&1 || echo "Not here: bubblewrap - the tests that need it are \
skipped. Install it (Debian: apt-get install bubblewrap; Fedora: dnf install bubblewrap)." >&2

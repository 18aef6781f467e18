#!/usr/bin/env sh
# Install compilers of C and Rust for the tests of native libraries where that is possible: as root,
# with apt-get. Elsewhere say what is missing; the tests that need it are skipped and say so, too.
set -eu

has() {
    PATH="$PATH:$HOME/.cargo/bin" command -v "$1" >/dev/null 2>&1
}

missing() {
    has cc || echo gcc libc6-dev
    has rustc || echo rustc
}

wanted=$(missing | tr '\n' ' ')
[ -n "$wanted" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests of native libraries: $wanted"
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install -y -qq --no-install-recommends $wanted"
    $install >/dev/null 2>&1 || { apt-get update -qq && $install >/dev/null; } ||
        echo "apt-get could not install them." >&2
fi

wanted=$(missing | tr '\n' ' ')
[ -z "$wanted" ] || echo "Not here: $wanted- the tests that need them are skipped." >&2

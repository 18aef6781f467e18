#!/usr/bin/env sh
# Install bubblewrap and docker for the tests of sandboxes where that is possible: as root, with
# apt-get. Elsewhere say what is missing; the tests that need it are skipped and say so, too.
#
# Where systemd runs, docker would be started at once and for good: there only CI installs it.
set -eu

[ "$(uname)" = Linux ] || exit 0

has() {
    command -v "$1" >/dev/null 2>&1
}

missing() {
    has bwrap || echo bubblewrap
    if [ ! -d /run/systemd/system ] || [ -n "${TREADLE_NEED_STORES:-}" ]; then
        has dockerd || echo docker.io
        has dockerd && ! has docker && echo docker-cli
    fi
    return 0
}

install() {
    [ "$(id -u)" = 0 ] && has apt-get || return 0
    wanted=$(missing | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    echo "installing for the tests of sandboxes: $wanted"
    export DEBIAN_FRONTEND=noninteractive
    get="apt-get install -y -qq --no-install-recommends $wanted"
    $get >/dev/null 2>&1 || { apt-get update -qq && $get >/dev/null; } ||
        echo "apt-get could not install them." >&2
}

install
install # newer releases have the engine and its client apart

has bwrap || echo "Not here: bubblewrap - the tests that need it are skipped. \
Install it (Debian: apt-get install bubblewrap; Fedora: dnf install bubblewrap)." >&2
has dockerd && has docker || echo "Not here: docker - the tests that need it are skipped. \
Install it (Debian: apt-get install docker.io); they start an engine of their own, as root." >&2

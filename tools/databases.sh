#!/usr/bin/env sh
# Install PostgreSQL, MariaDB and Redis for the tests where that is possible: as root, with apt-get.
# Elsewhere say what is missing; the tests that need it are skipped and say so, too.
set -eu

has() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/bin" command -v "$1" >/dev/null 2>&1
}

missing() {
    has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
    has mariadbd || echo mariadb-server
    has redis-server || echo redis-server
}

[ -z "${TREADLE_TEST_STORES:-}" ] || exit 0
wanted=$(missing | tr '\n' ' ')
[ -n "$wanted" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests of stores: $wanted"
    # The tests start servers of their own: what is installed must not start one.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install -y -qq --no-install-recommends"
    # shellcheck disable=SC2086 (a list of packages)
    $install $wanted >/dev/null 2>&1 ||
        { apt-get update -qq && $install $wanted >/dev/null; } ||
        echo "apt-get could not install them." >&2
fi

wanted=$(missing | tr '\n' ' ')
[ -z "$wanted" ] || echo "Not here: $wanted- the tests of these stores are skipped. Install them \
(Debian: apt-get install $wanted; macOS: brew install postgresql mariadb redis), or name servers \
of your own: TREADLE_TEST_STORES=postgresql://...,mysql://...,redis://..." >&2

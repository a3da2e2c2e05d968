#!/usr/bin/env bash
# Lists the modules that a service downloads and builds for importing agentstore,
# from a scratch module that imports only it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export GOWORK=off GOFLAGS=-mod=mod
cat > go.mod <<EOF
module scratch
go 1.26.0
require github.com/seed-df90f812/agentstore v0.0.0
replace github.com/seed-df90f812/agentstore => $root
EOF
cat > main.go <<'EOF'
package main

import _ "github.com/seed-df90f812/agentstore"

func main() {}
EOF
cp "$root/go.sum" go.sum
go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' . |
	grep -v -e '^scratch' -e '^github.com/seed-df90f812/agentstore' | LC_ALL=C sort -u

#!/usr/bin/env bash
# Runs a command bound to one processor, beside two busy loops on it: once with GOMAXPROCS 1,
# and twice with 4. The processes that the command starts, servers too, stay on that processor.
#
#	slow.sh command [argument …]
set -euo pipefail

cpu=${CPU:-$(taskset -cp $$ | grep -oE '[0-9]+$')} # the last one that this process may use
loops=()
finish() { kill "${loops[@]}" 2> /dev/null || true; }
trap finish EXIT
for _ in 1 2; do
	taskset -c "$cpu" bash -c 'while kill -0 '$$' 2> /dev/null; do for ((i = 0; i < 1000000; i++)); do :; done; done' &
	loops+=($!)
done
for procs in ${PROCS:-1 4 4}; do
	echo "== processor $cpu, GOMAXPROCS $procs"
	GOMAXPROCS=$procs taskset -c "$cpu" "$@"
done

# Hosts, for tests/bench/run: real sshd processes in network namespaces (tests/hosts.bash), with the sleeping workers of pool.sh.
# shellcheck shell=bash disable=SC2154

wait_for() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || { echo "waited in vain for: $*" >&2; exit 2; }
		sleep 0.05
	done
}
NET=$DIR/net
. "$ROOT/tests/hosts.bash"
trap 'hosts_down; rm -rf "$DIR"' EXIT

# far_times LOAD US: three runs without and with the relay, by turns; the median ratio and its two times (milliseconds).
far_times() {
	local i near
	for i in 1 2 3; do
		SPREAD=(hub lx-batch --hosts near)
		load "$1" 16 50 "$2"
		near=$MS
		SPREAD=(hub lx-batch --hosts far)
		load "$1" 16 50 "$2"
		echo "$(calc "100 * $near / $MS" 1) $near $MS"
	done | sort -n | sed -n 2p
	unset SPREAD
}

# 25 ms each way, by tests/tool/relay.c.
bench_far() {
	local name us ratio near far
	hosts_up a b c d 3>&2
	for name in a b c d; do
		echo "4/$name" >>near
		echo "4/ssh -oProxyCommand='$B/tool/relay 25 %h %p' $name" >>far
	done
	docs whole shuffled >1000.jsonl
	docs half shuffled >4000.jsonl
	for us in 1000 4000; do
		read -r ratio near far < <(far_times $us.jsonl $us)
		report far "4 hosts, batches of $((us / 20)) ms: $near ms, with 50 ms added round trip $far ms: $ratio % of the throughput" ">= 95 %" "$ratio >= 95"
	done
	hosts_down
}

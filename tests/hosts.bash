# Machines for tests/hosts.bats and the benchmarks: real sshd processes, each in a network namespace of its own with an
# address, keys, a directory and a link that can be cut. Where namespaces are not allowed: on loopback, as the current user,
# and a cut link is an sshd that was stopped.
#
#   hosts_up NAME...      make and start them; $NET is their directory. hosts_down ends everything.
#   hub COMMAND...        run it where all of them can be reached. `ssh` there knows them by name.
#   host_pids NAME [COMM] processes on a host, of this name
#   link NAME down|up     cut the way to it, or mend it
# On a host PATH begins with $NET/NAME/bin and TMPDIR is $NET/NAME/tmp.
# shellcheck shell=bash

SSHD=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)
IP=$(PATH=$PATH:/usr/sbin:/sbin command -v ip)

# One probe: both network and a tmpfs of one's own.
can_have_namespaces() { [[ $(id -u) == 0 ]] && "$IP" netns add "lx$$-try" 2>/dev/null && "$IP" netns del "lx$$-try"; }

hosts_up() {
	local name n=10
	NET=${NET:-$BATS_FILE_TMPDIR/net} SPACES=
	mkdir -p "$NET/bin"
	! can_have_namespaces || SPACES=lx$$
	[[ -n $SPACES ]] || echo "# hosts: no network namespaces here, sshd runs on loopback as $(id -un)" >&3
	printf '%s\n' "$SPACES" >"$NET/spaces"
	printf '%s\n' "$@" >"$NET/names"
	[[ -d /run/sshd ]] || ! [[ -w /run ]] || mkdir -p /run/sshd
	ssh-keygen -q -t ed25519 -N '' -f "$NET/key"
	[[ -z $SPACES ]] || hub_up
	for name; do
		n=$((n + 1))
		host_up "$name" "$n"
	done
	printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$NET/ssh_config" >"$NET/bin/ssh"
	chmod +x "$NET/bin/ssh"
	for name; do wait_for 20 hub ssh -o BatchMode=yes "$name" true </dev/null; done
}

hub_up() {
	"$IP" netns add "$SPACES-hub"
	"$IP" -n "$SPACES-hub" link set lo up
	"$IP" -n "$SPACES-hub" link add name lxbr type bridge
	"$IP" -n "$SPACES-hub" addr add 10.213.7.1/24 dev lxbr
	"$IP" -n "$SPACES-hub" link set lxbr up
}

host_up() { # NAME NUMBER
	local name=$1 n=$2 d=$NET/$1 address=10.213.7.$2 port=22
	mkdir -p "$d/bin" "$d/tmp"
	if [[ -n $SPACES ]]; then
		"$IP" netns add "$SPACES-$name"
		"$IP" -n "$SPACES-hub" link add "to-$name" type veth peer name eth0 netns "$SPACES-$name"
		"$IP" -n "$SPACES-hub" link set "to-$name" master lxbr up
		"$IP" -n "$SPACES-$name" addr add "$address/24" dev eth0
		"$IP" -n "$SPACES-$name" link set eth0 up
		"$IP" -n "$SPACES-$name" link set lo up
	else
		address=127.0.0.1 port=$((20000 + RANDOM % 20000 + n))
	fi
	ssh-keygen -q -t ed25519 -N '' -f "$d/host_key"
	cat >"$d/sshd_config" <<-EOF
		ListenAddress $address
		Port $port
		HostKey $d/host_key
		PidFile $d/sshd.pid
		AuthorizedKeysFile $NET/key.pub
		StrictModes no
		UsePAM no
		PermitRootLogin yes
		PasswordAuthentication no
		SetEnv PATH=$d/bin:$B/bin:/usr/bin:/bin TMPDIR=$d/tmp LX_TEST_HOST=$NET/$name
	EOF
	cat >>"$NET/ssh_config" <<-EOF
		Host $name
		HostName $address
		Port $port
		User $(id -un)
		IdentityFile $NET/key
		IdentitiesOnly yes
		UserKnownHostsFile $NET/known
		StrictHostKeyChecking yes
		LogLevel ERROR
	EOF
	printf '[%s]:%s %s\n%s %s\n' "$address" "$port" "$(<"$d/host_key.pub")" "$address" "$(<"$d/host_key.pub")" >>"$NET/known"
	sshd_up "$name"
}

in_space() { # NAME COMMAND...
	local name=$1
	shift
	if [[ -n $SPACES ]]; then "$IP" netns exec "$SPACES-$name" "$@"; else "$@"; fi
}

hub() { PATH=$NET/bin:$PATH in_space hub "$@"; }

sshd_up() { # NAME
	in_space "$1" "$SSHD" -f "$NET/$1/sshd_config" -E "$NET/$1/log" 3>&-
}

sshd_pid() { cat "$NET/$1/sshd.pid"; }

# Found by what sshd put into their environment: also when their sshd is gone.
host_pids() {
	local p
	for p in $(grep -lzsxF -- "LX_TEST_HOST=$NET/$1" /proc/[0-9]*/environ); do
		p=${p%/environ}
		[[ -z ${2-} || $(cat "$p/comm" 2>/dev/null) == "$2" ]] && echo "${p#/proc/}"
	done
	true
}

# sshd's processes for connections to a host.
session_pids() { pgrep -P "$(sshd_pid "$1")"; }

link() {
	if [[ -n $SPACES ]]; then
		"$IP" -n "$SPACES-hub" link set "to-$1" "$2"
	elif [[ $2 == down ]]; then
		kill -STOP $(sshd_pid "$1") $(session_pids "$1")
	else
		kill -CONT $(sshd_pid "$1") $(session_pids "$1")
	fi
}

hosts_down() {
	local name p
	NET=${NET:-$BATS_FILE_TMPDIR/net}
	[[ -e $NET/names ]] || return 0
	read -r SPACES <"$NET/spaces"
	while read -r name; do
		for p in $(cat "$NET/$name/sshd.pid" 2>/dev/null) $(host_pids "$name"); do kill -KILL "$p" 2>/dev/null; done
		[[ -z $SPACES ]] || for p in $("$IP" netns pids "$SPACES-$name" 2>/dev/null); do kill -KILL "$p" 2>/dev/null; done
		! mountpoint -q "$NET/$name/tmp" || umount "$NET/$name/tmp"
		[[ -z $SPACES ]] || "$IP" netns del "$SPACES-$name" 2>/dev/null
	done <"$NET/names"
	[[ -z $SPACES ]] || "$IP" netns del "$SPACES-hub" 2>/dev/null
	true
}

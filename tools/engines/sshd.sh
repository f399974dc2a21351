#!/usr/bin/env bash
# A remote machine for tests: an sshd of the calling user on 127.0.0.1. README.md describes it.
set -euo pipefail

readonly PROGRAM=${0##*/}
# Ports below the range from which the kernel takes the ports of outgoing connections
# (ip_local_port_range), so that no connection takes the port between `cut` and `restore`.
readonly FIRST_PORT=20000 PORT_COUNT=10000 PORT_ATTEMPTS=50
readonly POLL_SECONDS=0.02 POLL_COUNT=500

usage() {
  cat <<TEXT
Usage: $PROGRAM up DIR        starts sshd with all of its files in DIR, and prints the path of an
                             ssh_config in which the machine is called \`remote\`
       $PROGRAM cut DIR       breaks every connection and refuses new ones
       $PROGRAM restore DIR   accepts connections again
       $PROGRAM sessions DIR  prints the number of connections
       $PROGRAM down DIR      ends sshd; the files in DIR stay
       $PROGRAM check         fails if a program is missing, and names its package
TEXT
}

fail() {
  printf '%s: %s\n' "$PROGRAM" "$1" >&2
  exit 1
}

# sshd executes itself for each connection, so it must be started with its absolute path. The
# directories are usually not in the PATH of an ordinary user.
find_sshd() {
  PATH="$PATH:/usr/sbin:/usr/local/sbin" type -P sshd
}

check() {
  local name
  find_sshd >/dev/null || fail 'found no sshd; install it (Debian: apt-get install openssh-server)'
  for name in ssh ssh-keygen; do
    type -P "$name" >/dev/null \
      || fail "found no $name; install it (Debian: apt-get install openssh-client)"
  done
}

# Without PAM, sshd refuses an account whose password is locked (`!`). Only root can read the
# passwords: an sshd of an ordinary user does not know them and cannot use PAM.
pam_setting() {
  local password=''
  [[ $EUID -ne 0 ]] || password=$(getent shadow "$(id -un)" | cut -d: -f2 || true)
  if [[ $password == '!'* ]]; then echo yes; else echo no; fi
}

# The program that sshd starts for each command, with the user's shell. The login of an account with
# PAM may set the variables.
write_remote_command() {
  cat >"$DIR/remote-command" <<TEXT
#!/bin/sh
unset SIDING_STATE_DIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME
cd "\$HOME" || exit 1
[ -n "\${SSH_ORIGINAL_COMMAND:-}" ] || exec "\$SHELL"
exec "\$SHELL" -c "\$SSH_ORIGINAL_COMMAND"
TEXT
  chmod 700 "$DIR/remote-command"
}

# The remote side has another home than the caller, and therefore another state directory. `SetEnv`
# precedes the user's shell, so that the shell reads its start-up files there too. With the default
# of MaxStartups, sshd drops connections at random while ten others log in.
write_sshd_config() {
  cat >"$DIR/sshd_config" <<TEXT
ListenAddress 127.0.0.1:$1
HostKey $DIR/host_key
PidFile $DIR/sshd.pid
AuthorizedKeysFile $DIR/authorized_keys
AllowUsers $(id -un)
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM $(pam_setting)
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
PermitUserRC no
SetEnv HOME=$DIR/remote-home ${SSHD_SET_ENV:-}
ForceCommand $DIR/remote-command
MaxSessions ${SSHD_MAX_SESSIONS:-1000}
MaxStartups 1000
TEXT
}

write_ssh_config() {
  printf '[127.0.0.1]:%s %s\n' "$1" "$(<"$DIR/host_key.pub")" >"$DIR/known_hosts"
  cat >"$DIR/ssh_config" <<TEXT
Host remote
  HostName 127.0.0.1
  Port $1
  User $(id -un)
  IdentityFile $DIR/user_key
  IdentitiesOnly yes
  IdentityAgent none
  PreferredAuthentications publickey
  UserKnownHostsFile $DIR/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
TEXT
}

# Waits until a command succeeds; fails after 10 s.
poll() {
  local count
  for ((count = 0; count < POLL_COUNT; count++)); do
    if "$@"; then return; fi
    sleep "$POLL_SECONDS"
  done
  return 1
}

# Prints pid, state, name and parent of each process, one process per line. A process may end while
# grep reads.
list_processes() {
  { grep -HsE '^(Name|State|PPid):' /proc/[0-9]*/status || true; } | awk '
    { split($1, part, /[\/:]/); pid = part[3] }
    part[5] == "Name" { name = $2 }
    part[5] == "State" { state = $2 }
    part[5] == "PPid" { print pid, state, name, $2 }'
}

is_alive() {
  local state
  state=$(awk '/^State:/ { print $2 }' "/proc/$1/status" 2>/dev/null) && [[ $state != [ZX] ]]
}

all_dead() {
  local pid
  for pid; do
    if is_alive "$pid"; then return 1; fi
  done
}

# Prints the pid of the listening sshd; fails if there is none. The pid in the file may belong to
# another process once sshd has ended, so the command line must name the configuration.
listener() {
  local pid
  pid=$(cat "$DIR/sshd.pid" 2>/dev/null) && is_alive "$pid" \
    && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF -- "$DIR/sshd_config" && echo "$pid"
}

# Prints the pids of the living sshd processes below process $1. Names differ between versions:
# sshd, sshd-session, sshd-auth. The search does not continue below the command of a connection.
processes_below() {
  list_processes | awk -v top="$1" '
    $3 ~ /^sshd/ && $2 !~ /[ZX]/ { parent[$1] = $4 }
    END {
      found[top] = 1
      do {
        more = 0
        for (pid in parent) if (!(pid in found) && (parent[pid] in found)) { found[pid] = more = 1 }
      } while (more)
      for (pid in found) if (pid != top) print pid
    }' | sort -n
}

# Kills the sshd processes, and no process that they have started. They are stopped first, because a
# process that is created while the others are killed would otherwise survive.
kill_all() {
  local top before='' now
  if ! top=$(listener); then
    echo "$PROGRAM: no sshd runs in $DIR" >&2
    return
  fi
  kill -STOP "$top"
  while now=$(processes_below "$top") && [[ $now != "$before" ]]; do
    # A process may have ended since it was listed.
    # shellcheck disable=SC2086
    kill -STOP $now 2>/dev/null || true
    before=$now
  done
  # shellcheck disable=SC2086
  kill -KILL $now "$top" 2>/dev/null || true
  # shellcheck disable=SC2086
  poll all_dead $now "$top" || fail "sshd in $DIR does not end"
  rm -f "$DIR/sshd.pid"
}

# Returns whether the sshd with pid $1 listens or has ended. It writes its pid once it listens.
is_decided() {
  [[ -s $DIR/sshd.pid ]] || ! is_alive "$1"
}

# Starts sshd; fails if it cannot listen, for example because the port is in use.
start() {
  local sshd pid
  sshd=$(find_sshd)
  # The sshd of root changes into this directory before a login, and does not start without it.
  if [[ $EUID -eq 0 ]]; then (umask 022 && mkdir -p /run/sshd); fi
  # A session of its own, so that a signal to the caller's process group does not end sshd.
  setsid "$sshd" -D -f "$DIR/sshd_config" -E "$DIR/sshd.log" </dev/null >/dev/null 2>&1 &
  pid=$!
  if ! poll is_decided "$pid"; then
    kill -KILL "$pid"
    fail "sshd does not listen after 10 s; see $DIR/sshd.log"
  fi
  is_alive "$pid" && [[ -s $DIR/sshd.pid ]]
}

up() {
  local port attempt
  check
  [[ ! -e $DIR/sshd_config ]] || fail "$DIR already has an sshd; restore starts it again"
  (umask 077 && mkdir -p "$DIR/remote-home")
  ssh-keygen -q -t ed25519 -N '' -C host -f "$DIR/host_key"
  ssh-keygen -q -t ed25519 -N '' -C user -f "$DIR/user_key"
  cp "$DIR/user_key.pub" "$DIR/authorized_keys"
  write_remote_command
  for ((attempt = 0; attempt < PORT_ATTEMPTS; attempt++)); do
    port=$((FIRST_PORT + SRANDOM % PORT_COUNT))
    write_sshd_config "$port"
    if start; then
      write_ssh_config "$port"
      echo "$DIR/ssh_config"
      return
    fi
    grep -q 'Address already in use' "$DIR/sshd.log" || break
  done
  fail "could not start sshd: $(tail -n 3 "$DIR/sshd.log")"
}

restore() {
  check
  [[ -e $DIR/sshd_config ]] || fail "$DIR has no sshd; up creates it"
  if listener >/dev/null; then return; fi
  start || fail "could not start sshd: $(tail -n 3 "$DIR/sshd.log")"
}

# Only direct children are counted: sshd may use two processes for each connection.
sessions() {
  local top
  top=$(listener) || { echo 0 && return; }
  list_processes | awk -v top="$top" '$3 ~ /^sshd/ && $2 !~ /[ZX]/ && $4 == top' | wc -l
}

if [[ ${1:-} == --help ]]; then
  usage
  exit
fi
if [[ $* == check ]]; then
  check
  exit
fi
if [[ $# -ne 2 ]]; then
  usage >&2
  exit 2
fi
# Only here: remote commands inherit the mask of sshd.
if [[ $1 == up ]]; then (umask 077 && mkdir -p "$2"); fi
DIR=$(cd "$2" 2>/dev/null && pwd) || fail "no directory $2"
readonly DIR
# The path is a word in the configuration files and in scripts, each with its own rules of quoting.
[[ $DIR != *[!A-Za-z0-9/._-]* ]] || fail "the path $DIR may contain only A-Z a-z 0-9 / . _ -"
case $1 in
  up | restore | sessions) "$1" ;;
  cut | down) kill_all ;;
  *)
    usage >&2
    exit 2
    ;;
esac

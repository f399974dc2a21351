#!/usr/bin/env bash
# A Slurm cluster for tests: two nodes of the calling user on 127.0.0.1. README.md describes it.
set -euo pipefail

readonly PROGRAM=${0##*/}
# Ports below the range from which the kernel takes the ports of outgoing connections
# (ip_local_port_range), so that no connection takes the port of a daemon that is down.
readonly FIRST_PORT=20000 PORT_COUNT=10000 PORT_ATTEMPTS=50
readonly POLL_SECONDS=0.02 POLL_COUNT=1000
readonly NODES=(n1 n2)
# The length of the directory below which sockets may be, whose paths unix(7) limits to 107 bytes.
readonly MAX_RUN_BYTES=60
# The clients repeat a request for minutes while slurmctld is away.
readonly CLIENT_SECONDS=10

usage() {
  cat <<TEXT
Usage: $PROGRAM up DIR                starts a cluster with all of its files in DIR, and prints the
                                   path of its slurm.conf, the value of SLURM_CONF for clients
       $PROGRAM down DIR              ends all jobs and daemons; the files in DIR stay
       $PROGRAM stop-controller DIR   ends slurmctld, which keeps its state
       $PROGRAM start-controller DIR  starts slurmctld again, with that state
       $PROGRAM kill-node DIR [NODE]  kills slurmd; the jobs of the node continue
       $PROGRAM crash-node DIR [NODE] kills slurmd and the jobs of the node, like a power failure
       $PROGRAM start-node DIR [NODE] starts slurmd again
       $PROGRAM drain DIR             starts no more jobs
       $PROGRAM undrain DIR           starts jobs again
       $PROGRAM forget-ended DIR      makes slurmctld forget all ended jobs
       $PROGRAM check                 fails if a program is missing, and names its package

NODE is ${NODES[0]} or ${NODES[1]}. Without NODE, the command applies to both.
TEXT
}

fail() {
  printf '%s: %s\n' "$PROGRAM" "$1" >&2
  exit 1
}

check() {
  local name
  for name in slurmctld slurmd slurmstepd scontrol sinfo scancel squeue; do
    type -P "$name" >/dev/null \
      || fail "found no $name; install it (Debian: apt-get install slurm-wlm munge)"
  done
  type -P munged >/dev/null || fail 'found no munged; install it (Debian: apt-get install munge)'
}

# Waits until a command succeeds; fails after 20 s.
poll() {
  local count
  for ((count = 0; count < POLL_COUNT; count++)); do
    if "$@"; then return; fi
    sleep "$POLL_SECONDS"
  done
  return 1
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

# Prints the pid of a daemon; fails if it does not run. The pid in the file may belong to another
# process once the daemon has ended, so the command line must name a file of this cluster.
daemon_pid() {
  local pid
  pid=$(cat "$DIR/$1.pid" 2>/dev/null) && is_alive "$pid" \
    && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qE -- "[ =]$DIR/" && echo "$pid"
}

# Starts a daemon in the foreground of a session of its own, so that its pid is known, and a signal
# to the caller's process group does not end it.
start_daemon() {
  local name=$1
  shift
  (cd "$RUN" && exec setsid "$@") </dev/null >"$DIR/$name.out" 2>&1 &
  echo $! >"$DIR/$name.pid"
}

# Sends a signal to a daemon, if it runs, and waits for its end.
end_daemon() {
  local pid
  pid=$(daemon_pid "$1") || return 0
  kill "-$2" "$pid"
  if ! poll all_dead "$pid"; then
    kill -KILL "$pid" 2>/dev/null || true
    poll all_dead "$pid" || fail "$1 in $DIR does not end"
  fi
}

client() {
  SLURM_CONF=$DIR/slurm.conf timeout "$CLIENT_SECONDS" "$@"
}

# MinJobAge is the time after which slurmctld forgets an ended job. The CPUs and the memory are only
# declared (`config_overrides`), so that many jobs run at the same time. Paths of sockets are below
# RUN: unix(7) limits them to 107 bytes. A requeued job waits until its credential expires.
write_slurm_conf() {
  local port=$1 host node index=0 task_plugin=task/none over_memory=OverMemoryKill
  host=$(hostname -s)
  if [[ -n ${SLURM_MEMORY_GROUPS:-} ]]; then
    task_plugin=task/cgroup over_memory=NoOverMemoryKill
    printf '%s\n' CgroupPlugin=cgroup/v1 ConstrainRAMSpace=yes >"$DIR/cgroup.conf"
  fi
  cat >"$DIR/slurm.conf" <<TEXT
ClusterName=siding
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$RUN/munge.sock,cred_expire=5
CommunicationParameters=NoInAddrAny
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$RUN/spool-%n
SlurmctldPidFile=$DIR/slurmctld.own.pid
SlurmdPidFile=$DIR/%n.own.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmdLogFile=$DIR/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=$task_plugin
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=$over_memory
AccountingStorageType=accounting_storage/none
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
JobRequeue=1
ReturnToService=2
InactiveLimit=0
KillWait=${SLURM_KILL_WAIT:-5}
OverTimeLimit=0
MaxJobCount=${SLURM_MAX_JOBS:-10000}
MinJobAge=${SLURM_MIN_JOB_AGE:-300}
MessageTimeout=5
TCPTimeout=2
SlurmctldTimeout=10
SlurmdTimeout=${SLURM_NODE_TIMEOUT:-10}
MailProg=/bin/true
DefMemPerCPU=100
TEXT
  {
    for node in "${NODES[@]}"; do
      index=$((index + 1))
      echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + index))" \
        'CPUs=64 RealMemory=64000 State=UNKNOWN'
    done
    cat <<TEXT
PartitionName=DEFAULT Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 OverSubscribe=NO
PartitionName=debug Default=YES
PartitionName=short MaxTime=2
PartitionName=urgent PriorityTier=10 PreemptMode=OFF
TEXT
  } >>"$DIR/slurm.conf"
}

is_connectable() {
  (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Returns whether nothing listens on the ports of a cluster.
ports_are_free() {
  local port
  for ((port = $1; port <= $1 + ${#NODES[@]}; port++)); do
    if is_connectable "$port"; then return 1; fi
  done
}

# Returns whether slurmctld listens or has ended.
is_listening() {
  is_connectable "$1" || ! daemon_pid slurmctld >/dev/null
}

start_munged() {
  # It refuses a directory that other users cannot enter, unless it is forced.
  start_daemon munged munged --foreground --force --num-threads=2 --key-file="$DIR/munge.key" \
    --socket="$RUN/munge.sock" --pid-file="$DIR/munged.own.pid" --seed-file="$DIR/munge.seed"
  poll test -S "$RUN/munge.sock" || fail "munged does not start; see $DIR/munged.out"
}

start_slurmctld() {
  start_daemon slurmctld slurmctld -D -f "$DIR/slurm.conf" "$@"
}

# The slurmstepd of a node is a copy, so that its path tells the cluster and the node.
start_slurmd() {
  start_daemon "$1" slurmd -D -f "$DIR/slurm.conf" -N "$1" -d "$DIR/$1/slurmstepd"
}

controller_answers() {
  client squeue --noheader >/dev/null 2>&1
}

# Returns whether slurmctld answers, and considers the given nodes as available.
nodes_answer() {
  local states node
  states=" $(client sinfo --noheader --Node --partition=debug --format='%N=%T' 2>/dev/null) " \
    || return 1
  states=${states//$'\n'/ }
  for node; do
    [[ $states =~ " $node="([a-z]+)" " && ${BASH_REMATCH[1]} != @(down|unknown|inval) ]] || return 1
  done
}

# Prints the names of the daemons.
daemons() {
  printf '%s\n' "${NODES[@]}" slurmctld munged
}

any_daemon_dead() {
  local name
  for name in $(daemons); do
    if ! daemon_pid "$name" >/dev/null; then return 0; fi
  done
  return 1
}

is_decided() {
  nodes_answer "${NODES[@]}" || any_daemon_dead
}

end_daemons() {
  local name
  for name in $(daemons); do end_daemon "$name" TERM; done
}

prepare_directory() {
  local node stepd
  [[ ! -e $DIR/slurm.conf ]] || fail "$DIR already has a cluster"
  if [[ $RUN != "$DIR" ]]; then ln -s "$RUN" "$DIR/run"; fi
  mkdir -p "$DIR/state"
  stepd=$(type -P slurmstepd)
  for node in "${NODES[@]}"; do
    mkdir -p "$DIR/$node" "$RUN/spool-$node"
    cp "$stepd" "$DIR/$node/slurmstepd"
  done
  (umask 377 && head -c 128 /dev/urandom >"$DIR/munge.key")
}

up() {
  local port attempt node
  check
  prepare_directory
  start_munged
  for ((attempt = 0; attempt < PORT_ATTEMPTS; attempt++)); do
    port=$((FIRST_PORT + SRANDOM % PORT_COUNT))
    ports_are_free "$port" || continue
    write_slurm_conf "$port"
    start_slurmctld -c
    # A slurmd that finds no slurmctld repeats its registration a second later.
    poll is_listening "$port" || true
    for node in "${NODES[@]}"; do start_slurmd "$node"; done
    poll is_decided || fail "the cluster is not available after 20 s; see $DIR/*.log"
    if nodes_answer "${NODES[@]}"; then
      echo "$DIR/slurm.conf"
      return
    fi
    end_daemon slurmctld KILL
    for node in "${NODES[@]}"; do end_daemon "$node" KILL; done
    grep -q 'Address already in use' "$DIR"/*.log || break
  done
  end_daemons
  fail "could not start the cluster: $(grep -h -E 'error|fatal' "$DIR"/*.log | tail -n 5)"
}

# Prints the pids of the processes of jobs on a node: its slurmstepd processes, the processes with
# the environment of a job there, and the descendants of both. A process may end meanwhile.
job_processes() {
  local found=' ' path pid parent more=yes
  while read -r path; do
    path=${path#/proc/}
    found+="${path%%/*} "
  done < <(
    find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' -lname "$DIR/$1/slurmstepd" 2>/dev/null
    grep -lszxF "SLURM_CONF=$DIR/slurm.conf" /proc/[0-9]*/environ \
      | xargs -r grep -lszxF "SLURMD_NODENAME=$1"
  )
  while [[ -n $more ]]; do
    more=''
    while read -r pid parent; do
      if [[ $found == *" $parent "* && $found != *" $pid "* ]]; then found+="$pid " more=yes; fi
    done < <(list_parents)
  done
  for pid in $found; do
    if is_alive "$pid"; then echo "$pid"; fi
  done
}

# Prints the pid and the parent of each process, one process per line.
list_parents() {
  { grep -HsE '^PPid:' /proc/[0-9]*/status || true; } | awk -F '[/:\t]+' '{ print $3, $6 }'
}

# Kills the processes of jobs on a node. They are stopped first, because a process that is created
# while the others are killed would otherwise survive.
kill_jobs() {
  local before='' now
  while now=$(job_processes "$1") && [[ $now != "$before" ]]; do
    # shellcheck disable=SC2086
    kill -STOP $now 2>/dev/null || true
    before=$now
  done
  [[ -n $now ]] || return 0
  # shellcheck disable=SC2086
  kill -KILL $now 2>/dev/null || true
  # shellcheck disable=SC2086
  poll all_dead $now || fail "processes of jobs in $DIR do not end: $now"
}

# Waits at most 2 s until all jobs have ended.
wait_for_jobs() {
  local count
  for ((count = 0; count < 40; count++)); do
    [[ -n $(client squeue --noheader 2>/dev/null) ]] || return 0
    sleep 0.05
  done
}

# Removes the empty control groups that slurmd leaves. Another cluster may use them.
remove_memory_groups() {
  [[ -e $DIR/cgroup.conf ]] || return 0
  find "/sys/fs/cgroup/memory/slurm_$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
}

# The jobs are cancelled first: a killed job cannot clean up.
down() {
  local node
  if daemon_pid slurmctld >/dev/null; then
    client scancel --user="$(id -un)" 2>/dev/null || true
    wait_for_jobs
  fi
  for node in "${NODES[@]}"; do
    end_daemon "$node" KILL
    kill_jobs "$node"
    remove_memory_groups "$node"
  done
  end_daemons
  if [[ $RUN != "$DIR" ]]; then rm -rf "$RUN"; fi
}

stop_controller() {
  end_daemon slurmctld TERM
}

start_controller() {
  if daemon_pid slurmctld >/dev/null; then return; fi
  start_slurmctld
  poll controller_answers || fail "slurmctld does not start; see $DIR/slurmctld.log"
}

kill_node() {
  end_daemon "$1" KILL
}

# slurmd is stopped before its jobs are killed, so that it does not report their end. The last step
# gives the result immediately that slurmctld reaches by itself about 15 s later.
crash_node() {
  local pid
  if pid=$(daemon_pid "$1"); then kill -STOP "$pid"; fi
  kill_jobs "$1"
  end_daemon "$1" KILL
  daemon_pid slurmctld >/dev/null || return 0
  client scontrol update nodename="$1" state=down reason='Not responding'
}

start_node() {
  if daemon_pid "$1" >/dev/null; then return; fi
  start_slurmd "$1"
  daemon_pid slurmctld >/dev/null || return 0
  poll nodes_answer "$1" || fail "slurmd does not start; see $DIR/$1.log"
}

drain_node() {
  client scontrol update nodename="$1" state=drain reason=test
}

# Refused for a node that is not drained, or has not registered itself since the start of slurmctld.
is_undrained() {
  client scontrol update nodename="$1" state=resume 2>/dev/null || true
  [[ $(client sinfo --noheader --nodes="$1" --partition=debug --format=%T) != *drain* ]]
}

undrain_node() {
  poll is_undrained "$1" || fail "slurmctld does not resume $1"
}

set_min_job_age() {
  sed "s/^MinJobAge=.*/MinJobAge=$1/" "$DIR/slurm.conf" >"$DIR/slurm.conf.new"
  mv "$DIR/slurm.conf.new" "$DIR/slurm.conf"
  client scontrol reconfigure
}

ended_jobs_forgotten() {
  local states=BF,CA,CD,DL,F,NF,OOM,PR,TO
  sleep 0.2
  [[ -z $(client squeue --noheader --states="$states") ]]
}

forget_ended() {
  local age
  age=$(sed -n 's/^MinJobAge=//p' "$DIR/slurm.conf")
  # slurmctld forgets jobs every 10 s. With 0 it would never forget one.
  set_min_job_age 1
  poll ended_jobs_forgotten || fail 'slurmctld does not forget the ended jobs'
  set_min_job_age "$age"
}

# Calls a function with the node of the command line, or with each node.
for_nodes() {
  local node
  for node in ${2:-"${NODES[@]}"}; do
    [[ " ${NODES[*]} " == *" $node "* ]] || fail "no node $node; the nodes are ${NODES[*]}"
    "$1" "$node"
  done
}

# The clients of this script must not use another cluster, or defaults of the caller.
clear_environment() {
  local name
  for name in $(compgen -e); do
    case $name in
      SLURM_KILL_WAIT | SLURM_MAX_JOBS | SLURM_MEMORY_GROUPS | SLURM_MIN_JOB_AGE) ;;
      SLURM_NODE_TIMEOUT) ;;
      SLURM* | SBATCH* | SQUEUE* | SINFO* | SCANCEL* | SCONTROL*) unset "$name" ;;
    esac
  done
}

if [[ ${1:-} == --help ]]; then
  usage
  exit
fi
# The directories of the daemons are usually not in the PATH of an ordinary user.
PATH=$PATH:/usr/sbin:/usr/local/sbin
clear_environment
if [[ $* == check ]]; then
  check
  exit
fi
if [[ $# -lt 2 || $# -gt 3 || ($# -eq 3 && $1 != *-node) ]]; then
  usage >&2
  exit 2
fi
if [[ $1 == up ]]; then (umask 077 && mkdir -p "$2"); fi
DIR=$(cd "$2" 2>/dev/null && pwd) || fail "no directory $2"
readonly DIR
# The path is a word in configuration files, which have no quotes for it.
[[ $DIR != *[!A-Za-z0-9/._-]* ]] || fail "the path $DIR may contain only A-Z a-z 0-9 / . _ -"
RUN=$DIR
if [[ -L $DIR/run ]]; then
  RUN=$(readlink "$DIR/run")
elif [[ $1 == up && ${#DIR} -gt $MAX_RUN_BYTES ]]; then
  RUN=$(mktemp -d /tmp/slurm-XXXXXX)
fi
readonly RUN
case $1 in
  up | down) "$1" ;;
  stop-controller) stop_controller ;;
  start-controller) start_controller ;;
  kill-node) for_nodes kill_node "${3:-}" ;;
  crash-node) for_nodes crash_node "${3:-}" ;;
  start-node) for_nodes start_node "${3:-}" ;;
  drain) for_nodes drain_node ;;
  undrain) for_nodes undrain_node ;;
  forget-ended) forget_ended ;;
  *)
    usage >&2
    exit 2
    ;;
esac

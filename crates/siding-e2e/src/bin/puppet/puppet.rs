//! A program that does what its arguments say, in order, and announces each step.
//!
//! ```text
//! puppet [--log FILE] [--quiet] [--until MS] VERB [ARGUMENT…] [VERB [ARGUMENT…]] …
//! ```
//!
//! Each step is announced as one line `puppet: VERB pid=N start=TICKS …`
//! ([`siding_e2e::Announcement`]) on stdout (not with `--quiet`) and, if `--log FILE` or
//! `PUPPET_LOG` names one, in that file. `say`, `err`, `write`, `fill`, `env` and `read-stdin` write
//! their bytes to the stream and are announced only in the log. puppet runs no other program. It
//! exits with 0 after the last verb, with 64 for an invalid script, and with 70 when a verb fails.
//!
//! **Lifetime**: a kernel timer kills every process of a puppet, whatever the process does to
//! itself, `PUPPET_TTL_MS` milliseconds (60,000 by default) after the first one started. `exec-self`
//! passes the end of this lifetime to the new program with `--until`, in milliseconds of the
//! monotonic clock.
//!
//! | verb | effect |
//! |---|---|
//! | `say TEXT`, `err TEXT` | writes the text and a line break to stdout, stderr |
//! | `write TEXT` | writes the text alone to stdout |
//! | `mark NAME` | announces `text=NAME`, so that a test can find this process |
//! | `report` | announces ids, umask, signal masks, birthmark; in `text=` directory, descriptors |
//! | `env NAME` | writes `NAME=VALUE` or `NAME unset` to stdout |
//! | `exit N` | exits with this code |
//! | `die SIGNAL` | kills itself by a signal (`TERM`, or a number) with its default action and without a core file |
//! | `hang` | waits forever |
//! | `sleep MS` | waits |
//! | `ignore SIGNAL`, `default SIGNAL` | sets the disposition; `ALL` means every signal that allows it |
//! | `fork VERBS --` | starts a child that runs the verbs and exits; the parent continues |
//! | `vfork VERBS --` | like `fork`, but the parent waits in state D until the child has ended |
//! | `wait` | waits for all its children, announcing `reaped child=PID code=N` or `signal=N` |
//! | `relaunch VERBS --` | starts a child as `fork` does, and a new one whenever the last has ended, forever |
//! | `setsid`, `setpgid` | starts a session, a process group (no effect in a process that already leads a process group) |
//! | `daemon` | forks twice, with a new session, directory `/`, no environment, no descriptors and the name `innocent`; the caller exits with 0, the daemon runs the following verbs |
//! | `orphan` | forks; the caller exits with 0, the child runs the following verbs |
//! | `clearenv` | clears the environment, also in `/proc/PID/environ` |
//! | `closefds` | closes all descriptors |
//! | `rename NAME` | changes name and command line |
//! | `chdir DIR` | changes the working directory |
//! | `subreaper` | becomes the parent of orphans among its descendants |
//! | `exec-self VERBS` | execs itself with the verbs up to the end of this block |
//! | `stop-self` | sends SIGSTOP to itself; continues after SIGCONT (the kernel sends SIGHUP to a process group with a stopped member when the group becomes orphaned) |
//! | `leader-exits` | ends the main thread; a second thread runs the following verbs |
//! | `lower-rttime` | halves RLIMIT_RTTIME (an unlimited value becomes 2^59 µs) |
//! | `beat FILE` | appends a byte every 20 ms, forever |
//! | `burn [--for MS]` | keeps a CPU busy forever, or for this time |
//! | `grow BYTES` | allocates and touches memory, and keeps it |
//! | `hold-fds N` | raises the soft limit to the hard limit and opens N descriptors; if the hard limit is too low, opens all available descriptors except one |
//! | `listen PORTFILE [--port N]` | listens on 127.0.0.1, by default on any port, writes the port to the file, and keeps listening |
//! | `fill BYTES [--line LEN \| --block LEN]` | writes the bytes of [`siding_e2e::fill_pattern`] to stdout, in 80-byte lines by default; accepts the suffixes `k`, `M`, `G` |
//! | `read-stdin` | echoes stdin; announces `eof bytes=N`, on stdout too |
//! | `reopen PATH TEXT` | opens with O_WRONLY, O_CREAT, O_TRUNC and writes, as `> /dev/stderr` does |
//! | `reopen-append PATH TEXT`, `reopen-rw PATH TEXT` | like `reopen`, with O_APPEND; with O_RDWR and without O_TRUNC |
//! | `truncate PATH`, `ftruncate FD` | truncates to zero bytes by path, by descriptor |
//! | `rewind FD TEXT` | seeks to 0 and writes |
//! | `remove PATH`, `chmod MODE PATH` | removes a file or tree; changes the mode (octal) |
//! | `hop MS [--beat FILE]` | repeatedly forks, exits in the parent and starts a session in the child; the caller exits with 0 |
//! | `bomb N [--setsid] [--refill]` | fork storm of up to N processes that fork again and then hang; with `--refill` the slot of a reaped process is used again, up to 200 N processes in total |
//! | `tree SEED DEPTH WIDTH [--beats FILE]` | executes [`siding_e2e::tree_plan::plan_tree`]; each member announces `member path=…` |
//!
//! When a verb from `reopen` to `chmod` fails, it announces `error=ERRNO`, and the script
//! continues.

mod executor;
mod parser;
mod process_verbs;
mod puppet_process;
mod signal_names;
mod steps;
mod stream_verbs;
mod swarm_verbs;
mod syscalls;
mod tree_verbs;

use puppet_process::PuppetProcess;

/// Parses the command line and runs its steps; returns the exit code.
pub(super) fn run(words: Vec<String>) -> i32 {
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let parsed = parser::parse_options(words.collect())
        .and_then(|(options, verbs)| Ok((options, parser::parse_script(&verbs)?)));
    match parsed {
        Ok((options, script)) => {
            let mut actor = PuppetProcess::new(program, options);
            executor::run_steps(&mut actor, script);
            0
        }
        Err(wrong) => {
            syscalls::write_all(2, format!("puppet: {wrong}\n").as_bytes());
            64
        }
    }
}

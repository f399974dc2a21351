//! A program that does what its arguments say, in order, and announces each step.
//!
//! ```text
//! puppet [--log FILE] [--quiet] [--until MS] VERB [ARGUMENT…] [VERB [ARGUMENT…]] …
//! ```
//!
//! Each step is announced as one line `puppet: VERB pid=N start=TICKS …` ([`siding_e2e::Announced`])
//! on stdout (not with `--quiet`) and, when `--log FILE` or `PUPPET_LOG` names one, appended to that file.
//! `say`, `err`, `fill`, `env` and `read-stdin` write their bytes to the stream and announce themselves in the
//! log alone. Needs no other program. Where the verbs end, it exits with 0; a wrong script ends it with 64, a
//! verb that cannot do its work with 70.
//!
//! **Bound**: every process of a puppet, whatever it does to itself, is killed by a kernel timer `PUPPET_TTL_MS`
//! (60 s) after the first one started. `--until` is that moment on the monotonic clock, for `exec-self`.
//!
//! | verb | does |
//! |---|---|
//! | `say TEXT`, `err TEXT` | writes the text and a line break to stdout, stderr |
//! | `write TEXT` | writes the text alone to stdout |
//! | `mark NAME` | announces `text=NAME`, so that a test finds this process |
//! | `report` | announces ids, signal masks, birthmark, `text=` directory and descriptors |
//! | `env NAME` | writes `NAME=VALUE` or `NAME unset` to stdout |
//! | `exit N` | ends with this code |
//! | `die SIGNAL` | kills itself, default action restored; names (`TERM`) or numbers, no core file |
//! | `hang` | waits for ever |
//! | `sleep MS` | waits |
//! | `ignore SIGNAL`, `default SIGNAL` | sets the disposition; `ALL` means all that can be |
//! | `fork VERBS --` | starts a child that does the verbs and exits; goes on |
//! | `vfork VERBS --` | the same, but waits in state D until the child has ended |
//! | `wait` | waits for all its children, announcing `reaped child=PID code=N` or `signal=N` |
//! | `relaunch VERBS --` | starts such a child, and the next one whenever one has ended, for ever |
//! | `setsid`, `setpgid` | own session, own group (does nothing where it is leader already) |
//! | `daemon` | forks twice, own session, `/`, no environment, no descriptors, name `innocent`; the caller exits 0, the daemon does the verbs that follow |
//! | `orphan` | forks; the caller exits 0, the child does the verbs that follow |
//! | `clearenv` | wipes the environment, also as `/proc/PID/environ` shows it |
//! | `closefds` | closes all descriptors |
//! | `rename NAME` | changes name and command line |
//! | `chdir DIR` | changes the directory |
//! | `subreaper` | takes in the orphans among its descendants |
//! | `exec-self VERBS` | execs itself with the verbs up to the end of this block |
//! | `stop-self` | SIGSTOP to itself; goes on when continued (mind that the kernel hangs up on a group with a stopped member when its last parent outside it in the session ends) |
//! | `leader-exits` | ends the main thread; a second one does the verbs that follow |
//! | `lower-rttime` | halves RLIMIT_RTTIME (`lower-rttime` of no limit gives 2^59 µs) |
//! | `beat FILE` | appends a byte every 20 ms for ever |
//! | `burn [--for MS]` | keeps a CPU busy for ever, or so long |
//! | `grow BYTES` | allocates and touches memory, and keeps it |
//! | `hold-fds N` | opens N descriptors, raising the soft limit as far as it goes; all but one where that is less |
//! | `listen PORTFILE [--port N]` | listens on 127.0.0.1, by default on any port, writes the port to the file, and keeps listening |
//! | `fill BYTES [--line LEN \| --block LEN]` | writes [`siding_e2e::fill`]'s bytes to stdout, 80-byte lines by default; `k`, `M`, `G` |
//! | `read-stdin` | echoes stdin; announces `eof bytes=N` on stdout too |
//! | `reopen PATH TEXT` | opens with O_WRONLY, O_CREAT, O_TRUNC and writes, as `> /dev/stderr` does |
//! | `reopen-append PATH TEXT`, `reopen-rw PATH TEXT` | the same with O_APPEND; with O_RDWR and no O_TRUNC |
//! | `truncate PATH`, `ftruncate FD` | cuts to nothing by path, by descriptor |
//! | `rewind FD TEXT` | seeks to 0 and writes |
//! | `remove PATH`, `chmod MODE PATH` | removes a file or tree; changes rights (octal) |
//! | `hop MS [--beat FILE]` | forks, exits in the parent, own session in the child, again and again; the caller exits 0 |
//! | `bomb N [--setsid] [--refill]` | fork storm up to N processes that re-fork and then hang; with `--refill` each freed (reaped) slot is taken again |
//! | `tree SEED DEPTH WIDTH [--beats FILE]` | acts out [`siding_e2e::tree::plan`]; each member announces `member path=…` |
//!
//! The verbs from `reopen` to `chmod` announce `error=ERRNO` when they were refused, and go on.

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

/// Reads the command line and does what it says; returns the exit code.
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

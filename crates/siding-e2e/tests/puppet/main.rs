//! Tests of the test tools: `puppet` performs the steps that its arguments name, and a sandbox
//! leaves no process.

mod exit_and_output;
mod process_steps;
mod process_storms;
mod sandbox;
mod streams;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use siding_e2e::{Process, ProgramOutput, Sandbox};

/// Runs a script to its end in a new sandbox, and fails the test if processes remain.
#[track_caller]
fn run_puppet(verbs: &[&str]) -> ProgramOutput {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox.puppet(verbs).run()
}

/// Returns a unique birthmark and the task id that encodes this birthmark. The birthmark is derived
/// from this process's start time and pid, and from the number `test`. The birthmark is below this
/// process's hard limit for `RLIMIT_RTTIME`, so that an unprivileged user can set it.
fn unique_birthmark(test: u64) -> (u64, String) {
    let me = Process::current();
    let unique = (me.start << 26 | u64::from(me.pid) << 4 | test) & ((1 << 59) - 1);
    let max_birthmark = getrlimit(Resource::Rttime).maximum.unwrap_or(1 << 60);
    let mark = unique % max_birthmark;
    let alphabet = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digit = |place: u32| char::from(alphabet[(mark >> (5 * place) & 31) as usize]);
    (mark, format!("b-{}", (0..12).rev().map(digit).collect::<String>()))
}

/// Sets the birthmark of a process with prlimit(2), as siding does.
fn set_birthmark(process: Process, mark: u64) {
    let pid = Pid::from_raw(i32::try_from(process.pid).expect("a process number"));
    let limit = Rlimit { current: Some(mark), maximum: Some(mark) };
    prlimit(pid, Resource::Rttime, limit).expect("a child process");
}

//! `siding why` on real programs, as root and as an ordinary user (promise P99, failures F37, F38,
//! F39 and F40).

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::{Duration, Instant};

use serde_json::Value;
use siding_e2e::stall_cases::{
    ExpectedVerdict, STALL_CASES, StallCase, StdinSource, reports_input_wait,
};
use siding_e2e::{Sandbox, is_root};

use crate::support::{sandbox, start_task, stop_all, why};

/// The uid of `nobody`: an ordinary user with an entry in `/etc/passwd`, which `ssh-keygen`
/// requires.
const UNPRIVILEGED_UID: u32 = 65_534;
/// The uid of an ordinary user without an entry in `/etc/passwd`.
const UID_WITHOUT_NAME: u32 = 64_213;
/// Time within which `siding why` must report the expected verdict on each program; the slowest
/// program needs far less.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(45);
/// Number of concurrent calls of `siding why`, which takes samples at an interval and mostly waits.
const CONCURRENT_CHECKS: usize = 6;
/// Number of further verdicts that are checked for a program that does not wait for input, because
/// a single verdict could be right by chance.
const RECHECKS: usize = 2;

struct StartedCase {
    case: &'static StallCase,
    id: String,
}

fn start_case(
    sandbox: &Sandbox,
    number: usize,
    case: &'static StallCase,
    owner: Option<u32>,
) -> StartedCase {
    let dir = sandbox.path(&format!("case-{number}"));
    std::fs::create_dir(&dir).expect("test directory");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).expect("test directory");
    chown(&dir, owner, owner).expect("root has the permission");
    let stdin = if case.stdin == StdinSource::Pipe { "pipe" } else { "null" };
    let dir = dir.display().to_string();
    let id = start_task(sandbox, &["--stdin", stdin, "--cwd", &dir], "1h", case.text);
    StartedCase { case, id }
}

fn check_all_verdicts(sandbox: &Sandbox, owner: Option<u32>, who: &str) {
    let mut open = vec![];
    for (number, case) in STALL_CASES.iter().enumerate() {
        match case.missing_program() {
            Some(program) => eprintln!("left out: {}: there is no {program}", case.name),
            None => open.push(start_case(sandbox, number, case, owner)),
        }
    }
    assert!(open.len() > STALL_CASES.len() / 2, "fewer than half of the programs are installed");
    let until = Instant::now() + SETTLE_TIMEOUT;
    let share = open.len().div_ceil(CONCURRENT_CHECKS);
    std::thread::scope(|scope| {
        while !open.is_empty() {
            let cases = open.split_off(open.len().saturating_sub(share));
            scope.spawn(move || check_verdicts(sandbox, cases, until, who));
        }
    });
    stop_all(sandbox);
}

/// Waits until `siding why` reports the expected verdict on each of these programs, and checks it
/// again where it says that the program does not wait for input.
fn check_verdicts(sandbox: &Sandbox, mut open: Vec<StartedCase>, until: Instant, who: &str) {
    let mut mismatches: Vec<(&'static str, Value)>;
    let mut at_rest = vec![];
    loop {
        mismatches = vec![];
        for one in std::mem::take(&mut open) {
            let answer = why(sandbox, &one.id);
            if one.case.expected.accepts(&answer) {
                at_rest.push(one);
            } else {
                mismatches.push((one.case.name, answer));
                open.push(one);
            }
        }
        if open.is_empty() || Instant::now() >= until {
            break;
        }
    }
    assert!(mismatches.is_empty(), "{who}: not as expected: {mismatches:#?}");
    for one in at_rest.iter().filter(|one| !one.case.expected.expects_input_wait()) {
        for _ in 0..RECHECKS {
            let answer = why(sandbox, &one.id);
            assert!(!reports_input_wait(&answer), "{who}: {}: {answer:#}", one.case.name);
        }
    }
}

#[test]
fn every_program_gets_the_expected_verdict() {
    check_all_verdicts(&sandbox(), None, "as the user who runs the tests");
}

#[test]
fn programs_of_an_unprivileged_user_get_the_expected_verdict() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(UNPRIVILEGED_UID);
    sandbox.expect_clean();
    check_all_verdicts(&sandbox, Some(UNPRIVILEGED_UID), "as an ordinary user");
}

/// Kernel fact K18: an ordinary user cannot inspect a process that is not dumpable, such as that of
/// a setuid program, so the verdict is based on the last line of the output.
#[test]
fn a_hidden_process_with_a_password_prompt_is_password_likely() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(UID_WITHOUT_NAME);
    sandbox.expect_clean();
    let text = "exec /usr/bin/python3 -c 'import ctypes\nctypes.CDLL(None).prctl(4, 0)\n\
                input(\"[sudo] password for jane: \")'";
    let hidden = start_task(&sandbox, &["--stdin", "pipe"], "1h", text);
    let answer = crate::support::wait_for_verdict(&sandbox, &hidden, "password_likely");
    assert_eq!(answer["certainty"], "soft", "{answer:#}");
    assert!(answer["advice"].as_str().is_some_and(|advice| advice.contains("only the user")));
    let text = text.replace("[sudo] password for jane: ", "");
    let quiet = start_task(&sandbox, &["--stdin", "pipe"], "1h", &text);
    let answer = crate::support::wait_for_verdict(&sandbox, &quiet, "unknown");
    assert!(answer["chain"][0]["detail"].as_str().is_some_and(|why| why.contains("kernel")));
    stop_all(&sandbox);
}

/// Promise P8: programs that would wait for input with `--stdin pipe` read an end of file from
/// `/dev/null` by default, and exit.
#[test]
fn programs_that_read_input_end_when_stdin_is_null() {
    let sandbox = sandbox();
    let askers = STALL_CASES.iter().filter(|case| {
        case.expected == ExpectedVerdict::InputWait
            && case.stdin == StdinSource::Pipe
            && case.required_programs.is_empty()
    });
    for case in askers {
        // All of these programs exit: `rm -i` treats the end of the input as "no", and an
        // interactive shell exits.
        let args = ["run", "--budget", "20s", "--json", "--", case.text];
        let done = sandbox.siding(&args).run();
        assert_eq!(done.json()["phase"], "ended", "{}: {done}", case.name);
    }
}

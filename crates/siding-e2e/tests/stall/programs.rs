//! Real programs, as root and as an ordinary user (LINUX faults 31 and 32; PAINS E7 to E10).

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::{Duration, Instant};

use serde_json::Value;
use siding_e2e::stalls::{CASES, Case, Expected, Given, says_input};
use siding_e2e::{Sandbox, is_root};

use crate::support::{sandbox, start, stop_all, why};

/// An ordinary user with a name: `ssh-keygen` wants one.
const USER: u32 = 65_534;
/// One without.
const NAMELESS: u32 = 64_213;
/// Far above what the slowest of these programs takes to come to rest.
const PATIENCE: Duration = Duration::from_secs(45);
/// Answers that a program that waits for nobody must give without a wrong one.
const AGAIN: usize = 2;

/// A started program.
struct Started {
    case: &'static Case,
    id: String,
}

fn start_case(
    sandbox: &Sandbox,
    number: usize,
    case: &'static Case,
    owner: Option<u32>,
) -> Started {
    let dir = sandbox.path(&format!("case-{number}"));
    std::fs::create_dir(&dir).expect("own directory");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).expect("own directory");
    chown(&dir, owner, owner).expect("root may");
    let stdin = if case.stdin == Given::Pipe { "pipe" } else { "null" };
    let dir = dir.display().to_string();
    let id = start(sandbox, &["--stdin", stdin, "--cwd", &dir], "1h", case.text);
    Started { case, id }
}

fn judge_all(sandbox: &Sandbox, owner: Option<u32>, who: &str) {
    let mut open = vec![];
    for (number, case) in CASES.iter().enumerate() {
        match case.lacks() {
            Some(program) => eprintln!("left out: {}: there is no {program}", case.name),
            None => open.push(start_case(sandbox, number, case, owner)),
        }
    }
    assert!(open.len() > CASES.len() / 2, "most programs are there");
    let until = Instant::now() + PATIENCE;
    let mut said: Vec<(&'static str, Value)>;
    let mut at_rest = vec![];
    loop {
        said = vec![];
        for one in std::mem::take(&mut open) {
            let answer = why(sandbox, &one.id);
            if one.case.expected.fits(&answer) {
                at_rest.push(one);
            } else {
                said.push((one.case.name, answer));
                open.push(one);
            }
        }
        if open.is_empty() || Instant::now() >= until {
            break;
        }
    }
    assert!(said.is_empty(), "{who}: not as expected: {said:#?}");
    for one in at_rest.iter().filter(|one| !one.case.expected.is_positive()) {
        for _ in 0..AGAIN {
            let answer = why(sandbox, &one.id);
            assert!(!says_input(&answer), "{who}: {}: {answer:#}", one.case.name);
        }
    }
    stop_all(sandbox);
}

#[test]
fn every_program_is_judged_rightly() {
    judge_all(&sandbox(), None, "as whoever runs the tests");
}

#[test]
fn an_ordinary_users_programs_are_too() {
    if !is_root() {
        eprintln!("skipped: only root has another user at hand");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(USER);
    sandbox.expect_clean();
    judge_all(&sandbox, Some(USER), "as an ordinary user");
}

/// LINUX fault 33: a process that hides, as setuid programs do, is judged by its last line.
#[test]
fn who_hides_and_asks_for_a_password_is_suspected() {
    if !is_root() {
        eprintln!("skipped: only root has another user at hand");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(NAMELESS);
    sandbox.expect_clean();
    let text = "exec /usr/bin/python3 -c 'import ctypes\nctypes.CDLL(None).prctl(4, 0)\n\
                input(\"[sudo] password for jane: \")'";
    let hidden = start(&sandbox, &["--stdin", "pipe"], "1h", text);
    let answer = crate::support::until_verdict(&sandbox, &hidden, "password_likely");
    assert_eq!(answer["certainty"], "soft", "{answer:#}");
    assert!(answer["advice"].as_str().is_some_and(|advice| advice.contains("person")));
    let text = text.replace("[sudo] password for jane: ", "");
    let quiet = start(&sandbox, &["--stdin", "pipe"], "1h", &text);
    let answer = crate::support::until_verdict(&sandbox, &quiet, "unknown");
    assert!(answer["chain"][0]["detail"].as_str().is_some_and(|why| why.contains("kernel")));
    stop_all(&sandbox);
}

/// With `/dev/null` there is nobody to wait for: those that would ask find the end and go on.
#[test]
fn without_input_nobody_waits_for_it() {
    let sandbox = sandbox();
    let askers = CASES.iter().filter(|case| {
        case.expected == Expected::Input && case.stdin == Given::Pipe && case.needs.is_empty()
    });
    for case in askers {
        // `rm -i` needs no answer but an end; the interactive shell ends with its input.
        let args = ["run", "--budget", "20s", "--json", "--", case.text];
        let done = sandbox.siding(&args).run();
        assert_eq!(done.json()["phase"], "ended", "{}: {done}", case.name);
    }
}

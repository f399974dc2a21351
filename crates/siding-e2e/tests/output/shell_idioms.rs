//! A command that reopens its standard streams does not truncate its earlier output (promise P23).

use siding_e2e::Sandbox;
use siding_e2e::fill_pattern::FillPattern;

use crate::{Task, assert_same, perform, shell};

/// Pairs of a required program (empty if none) and a shell text that reopens or truncates a
/// standard stream. `FILE` is replaced by the path of a file that contains [`MARKER_LINE`].
const SHELL_IDIOMS: &[(&str, &str)] = &[
    ("", "cat FILE > /dev/stderr"),
    ("", "cat FILE > /dev/stdout"),
    ("", "cat FILE > /dev/fd/1"),
    ("", "cat FILE > /proc/self/fd/2"),
    ("", "exec 3> /dev/stdout; cat FILE >&3"),
    ("", "(exec > /dev/stderr; cat FILE)"),
    ("", ": > /dev/stdout; : > /dev/stderr; cat FILE"),
    ("tee", "cat FILE | tee /dev/stderr"),
    ("tee", "cat FILE | tee /dev/stdout"),
    ("dd", "dd of=/dev/stdout status=none < FILE"),
    ("dd", "dd if=FILE of=/dev/stderr"),
    ("cp", "cp FILE /dev/stdout"),
    ("sort", "sort -o /dev/stdout FILE"),
    ("truncate", "truncate -s0 /dev/stdout; cat FILE"),
    ("truncate", "truncate -s0 /dev/stderr; cat FILE"),
    ("curl", "curl -s -o /dev/stdout file://FILE"),
    ("perl", r#"perl -e 'open F, ">", "/dev/stderr"; print F <>' FILE"#),
    ("python3", r#"python3 -c "open('/dev/stdout', 'w').write(open('FILE').read())""#),
    ("python3", r#"python3 -c "import os; os.truncate('/dev/stdout', 0)"; cat FILE"#),
    ("node", r#"node -e "fs.writeFileSync('/dev/stderr', fs.readFileSync('FILE'))""#),
    ("node", r#"node -e "fs.writeFileSync('/dev/stdout', fs.readFileSync('FILE'))""#),
];

/// The line that each idiom writes to a standard stream.
const MARKER_LINE: &str = "the idiom's own line\n";
/// Number of lines written before and after the idiom.
const LINE_COUNT: u64 = 200;

fn numbered_lines(name: &str) -> String {
    (1..=LINE_COUNT).map(|line| format!("{name} {line}\n")).collect()
}

/// Returns a script that runs the idiom between two sets of numbered lines. Both sets must be in
/// the stored output.
fn idiom_script(sandbox: &Sandbox, idiom: &str) -> String {
    let file = sandbox.path("mark");
    std::fs::write(&file, MARKER_LINE).expect("test file");
    let idiom = idiom.replace("FILE", &file.display().to_string());
    let counted =
        |name: &str| format!("for ((i=1; i<={LINE_COUNT}; i++)); do echo {name} $i; done");
    format!("{}\n{idiom}\n{}\nexit 6", counted("before"), counted("after"))
}

fn is_installed(sandbox: &Sandbox, program: &str) -> bool {
    let version_call = format!("{program} --version >/dev/null 2>&1");
    program.is_empty() || sandbox.host("bash", &["-c", &version_call]).run().code == Some(0)
}

#[test]
fn no_shell_idiom_truncates_the_task_output() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let (mut tried, mut skipped) = (0, vec![]);
    for (program, idiom) in SHELL_IDIOMS {
        if !is_installed(&sandbox, program) {
            skipped.push(*program);
            continue;
        }
        tried += 1;
        let task = Task::of(&shell(&sandbox, &idiom_script(&sandbox, idiom)).run().expect_code(6));
        let found = String::from_utf8(task.file()).expect("text");
        let (before, after) = (numbered_lines("before"), numbered_lines("after"));
        let middle = found
            .strip_prefix(&before)
            .and_then(|rest| rest.strip_suffix(&after))
            .unwrap_or_else(|| panic!("`{idiom}` lost lines: {found}"));
        assert!(middle.contains(MARKER_LINE), "`{idiom}` lost its own line: {middle}");
        assert_eq!(task.number("/output/bytes"), found.len() as u64, "{idiom}");
    }
    assert!(tried >= 10, "{tried} idioms tried, not installed: {skipped:?}");
}

/// Most of the idioms truncate a plain log file, so the test above could fail.
#[test]
fn most_shell_idioms_truncate_a_plain_log_file() {
    let sandbox = Sandbox::new();
    let log = sandbox.path("log");
    let (mut tried, mut wiped) = (0, 0);
    for (program, idiom) in SHELL_IDIOMS {
        if !is_installed(&sandbox, program) {
            continue;
        }
        tried += 1;
        let script = format!("exec > {0} 2>&1; {1}", log.display(), idiom_script(&sandbox, idiom));
        let _done = sandbox.host("bash", &["-c", &script]).run().expect_code(6);
        let found = std::fs::read_to_string(&log).unwrap_or_default();
        wiped += u32::from(!found.starts_with(&numbered_lines("before")));
    }
    assert!(wiped * 2 > tried, "only {wiped} of {tried} wiped it");
}

#[test]
fn reopening_a_stream_never_truncates_the_task_output() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let shape = FillPattern::Lines(80);
    for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/proc/self/fd/2"] {
        for verbs in [
            &["reopen", stream, "new"][..],
            &["reopen-append", stream, "new"],
            &["reopen-rw", stream, "new"],
            &["truncate", stream, "say", "new"],
            &["ftruncate", "1", "ftruncate", "2", "say", "new"],
            &["rewind", "1", "new"],
            &["rewind", "2", "new"],
        ] {
            let around = &["fill", "80000"][..];
            let script = [around, verbs, around, &["exit", "4"]].concat();
            let task = Task::of(&perform(&sandbox, &script).run().expect_code(4));
            let wanted = [shape.bytes(0, 80_000), b"new\n".to_vec(), shape.bytes(0, 80_000)];
            assert_same(&task.file(), &wanted.concat(), &format!("{verbs:?}"));
        }
    }
}

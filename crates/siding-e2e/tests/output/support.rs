//! Helpers that start tasks for the output tests, and that read the JSON that describes these
//! tasks.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode};
use serde_json::Value;
use siding_e2e::{Invocation, ProgramOutput, Sandbox};

/// Prepares a `run --json` of `puppet` with these verbs, without a budget, so that the call waits
/// until the task has ended.
pub(crate) fn perform(sandbox: &Sandbox, verbs: &[&str]) -> Invocation {
    let argv = sandbox.puppet_argv(&[&["--quiet"], verbs].concat());
    let head = ["run", "--json", "--budget", "none", "--"].map(str::to_owned);
    sandbox.siding(&[&head[..], &argv].concat())
}

/// Prepares a `run --json` of a shell text, without a budget, so that the call waits until the
/// command has exited.
pub(crate) fn shell(sandbox: &Sandbox, text: &str) -> Invocation {
    sandbox.siding(&["run", "--json", "--budget", "none", "--", text])
}

/// Creates a FIFO for a task to read. The task's open(2) blocks until the test opens the FIFO for
/// writing.
pub(crate) fn gate(sandbox: &Sandbox) -> PathBuf {
    let gate = sandbox.path("gate");
    let mode = Mode::RUSR | Mode::WUSR | Mode::ROTH | Mode::WOTH;
    rustix::fs::mknodat(rustix::fs::CWD, &gate, FileType::Fifo, mode, 0).expect("test directory");
    std::fs::set_permissions(&gate, Permissions::from_mode(mode.bits())).expect("test file");
    gate
}

/// The JSON object that a command prints for a task with `--json`.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) Value);

impl Task {
    /// Parses the standard output of a command that was called with `--json`.
    #[track_caller]
    pub(crate) fn of(done: &ProgramOutput) -> Self {
        Self(done.json())
    }

    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let found = self.0.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_else(|| panic!("no text at {pointer} in {:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let found = self.0.pointer(pointer).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("no number at {pointer} in {:#}", self.0))
    }

    #[track_caller]
    pub(crate) fn id(&self) -> &str {
        self.text("/task_id")
    }

    /// Reads the whole output file, with zeros in place of released bytes.
    #[track_caller]
    pub(crate) fn file(&self) -> Vec<u8> {
        std::fs::read(self.text("/output/path")).expect("the output file can be read")
    }
}

/// Asserts that two byte strings are equal. On failure prints only the bytes around the first
/// difference.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], wanted: &[u8], what: &str) {
    if found == wanted {
        return;
    }
    let differ = found.iter().zip(wanted).position(|(one, other)| one != other);
    let at = differ.unwrap_or(found.len().min(wanted.len()));
    let around = |bytes: &[u8]| {
        let end = bytes.len().min(at + 40);
        String::from_utf8_lossy(&bytes[at.min(end).saturating_sub(40)..end]).into_owned()
    };
    panic!(
        "{what}: {} bytes where {} should be, first difference at {at}: {:?} for {:?}",
        found.len(),
        wanted.len(),
        around(found),
        around(wanted)
    );
}

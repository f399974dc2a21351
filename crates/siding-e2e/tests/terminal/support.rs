//! Helpers for tests that start tasks with a terminal, type into them and read their screens.

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{
    Invocation, Process, ProgramOutput, RunningProgram, Sandbox, eventually, eventually_some,
    is_root, processes,
};
use siding_model::journal::{self, TaskState};
use siding_model::process::ProcRef;

/// The process name of every shim.
const SHIM_NAME: &str = "siding-shim";
/// The process name of a holder, which keeps a terminal open for the next shim.
const HOLDER_NAME: &str = "siding-terminal";

/// A task with a terminal in a sandbox, identified by its id.
pub(crate) struct TerminalTask<'s> {
    sandbox: &'s Sandbox,
    pub(crate) id: String,
}

impl<'s> TerminalTask<'s> {
    /// Starts a shell text with a terminal, in the background.
    #[track_caller]
    pub(crate) fn start(sandbox: &'s Sandbox, command: &str) -> Self {
        Self::start_with(sandbox, &[], command)
    }

    /// Starts a shell text with a terminal, in the background, with additional flags.
    #[track_caller]
    pub(crate) fn start_with(sandbox: &'s Sandbox, flags: &[&str], command: &str) -> Self {
        let call = start_call(sandbox, flags, command);
        Self::from_view(sandbox, &call.run().expect_code(0).json())
    }

    /// Returns the task whose id is in the JSON that a call has printed.
    #[track_caller]
    pub(crate) fn from_view(sandbox: &'s Sandbox, view: &Value) -> Self {
        Self::from_id(sandbox, view["task_id"].as_str().expect("a task id"))
    }

    pub(crate) fn from_id(sandbox: &'s Sandbox, id: &str) -> Self {
        Self { sandbox, id: id.to_owned() }
    }

    /// Returns the only task of the sandbox.
    #[track_caller]
    pub(crate) fn only(sandbox: &'s Sandbox) -> Self {
        let ids = sandbox.task_ids();
        let [id] = ids.as_slice() else { panic!("expected exactly one task: {ids:?}") };
        Self::from_id(sandbox, id)
    }

    /// Prepares `siding keys` with these arguments after the id.
    pub(crate) fn keys_call(&self, args: &[&str]) -> Invocation {
        self.sandbox.siding(&[&["keys", &self.id], args].concat())
    }

    /// Types keys as an agent.
    #[track_caller]
    pub(crate) fn type_keys(&self, keys: &[&str]) {
        let _typed = self.keys_call(keys).run().expect_code(0);
    }

    /// Types keys as an agent, waits for a condition, and returns the rows of the screen that the
    /// call shows.
    #[track_caller]
    pub(crate) fn type_and_wait(&self, keys: &[&str], condition: &str) -> Vec<String> {
        let wait = ["--wait-for", condition, "--timeout", "40s", "--json"];
        let done = self.keys_call(&[keys, &wait].concat()).run().expect_code(0);
        let view = done.json();
        assert_eq!(view["wait"], "met", "{done}");
        rows_of(&view["screen"])
    }

    /// Waits for a condition without typing, and returns the rows of the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, condition: &str) -> Vec<String> {
        self.type_and_wait(&[], condition)
    }

    /// Returns the JSON of `siding screen`.
    #[track_caller]
    pub(crate) fn screen(&self) -> Value {
        let call = self.sandbox.siding(&["screen", "--json", &self.id]);
        call.run().expect_code(0).json()
    }

    /// Returns the JSON of `siding show`.
    #[track_caller]
    pub(crate) fn show(&self) -> Value {
        self.sandbox.siding(&["show", "--json", &self.id]).run().expect_code(0).json()
    }

    /// Stops the task and returns the JSON that `siding stop` prints.
    #[track_caller]
    pub(crate) fn stop(&self, flags: &[&str]) -> Value {
        let args = [&["stop", "--json"], flags, &[&self.id]].concat();
        self.sandbox.siding(&args).run().expect_code(0).json()
    }

    /// Waits for the task's end and returns the outcome.
    #[track_caller]
    pub(crate) fn wait_outcome(&self) -> Value {
        let args = ["wait", "--all", "--json", "--timeout", "50s", &self.id];
        self.sandbox.siding(&args).run().expect_code(0).json()["by"][0]["detail"].clone()
    }

    /// Returns the bytes of the output file.
    pub(crate) fn output_bytes(&self) -> Vec<u8> {
        std::fs::read(self.dir().join("output")).unwrap_or_default()
    }

    /// Returns the output file as text, with invalid UTF-8 replaced.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.output_bytes()).into_owned()
    }

    /// Waits until the output contains `part`, and returns the output.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, part: &str) -> String {
        eventually_some(&format!("the output of {} contains {part:?}", self.id), || {
            Some(self.output()).filter(|output| output.contains(part))
        })
    }

    /// Returns the journal, one record per line.
    pub(crate) fn journal(&self) -> String {
        let bytes = std::fs::read(self.dir().join("journal")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the task's directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.sandbox.state_dir().join("tasks").join(&self.id)
    }

    /// Returns the living processes of the command: those with the task's birthmark, except the
    /// shim and the holder of the terminal.
    pub(crate) fn members(&self) -> Vec<Process> {
        let is_of_siding = |process: &Process| {
            matches!(processes::comm(process.pid).as_str(), SHIM_NAME | HOLDER_NAME)
        };
        let mut members = processes::with_birthmark(&self.id);
        members.retain(|process| !is_of_siding(process));
        members
    }

    /// Returns the state of the task from its journal; `None` before the first record.
    fn state(&self) -> Option<TaskState> {
        let bytes = std::fs::read(self.dir().join("journal")).ok()?;
        journal::replay(&bytes).ok().map(|replayed| replayed.state)
    }

    /// Waits until the recorded shim is alive, and returns it.
    #[track_caller]
    pub(crate) fn shim(&self) -> Process {
        eventually_some(&format!("{} has a living shim", self.id), || {
            living_process(self.state()?.shim)
        })
    }

    /// Returns the process that holds the terminal for the next shim.
    #[track_caller]
    pub(crate) fn holder(&self) -> Process {
        eventually_some(&format!("{} has a living holder", self.id), || {
            living_process(self.state()?.terminal?.holder?)
        })
    }

    /// Kills the shim, and lets another command start a new one.
    #[track_caller]
    pub(crate) fn replace_shim(&self) {
        let old = self.shim();
        kill_and_wait(old);
        let _taken_over = self.sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        let _new = self.shim();
    }

    /// Asserts that the end of the task is recorded exactly once.
    #[track_caller]
    pub(crate) fn expect_recorded_end(&self) {
        let journal = self.journal();
        assert_eq!(journal.matches(r#""record":"closed""#).count(), 1, "{journal}");
    }

    /// Asserts that the task has ended cleanly: exactly one final record, no process, and no socket
    /// and no FIFO in the sandbox.
    #[track_caller]
    pub(crate) fn expect_closed(&self) {
        eventually(&format!("no process of {} is left", self.id), || {
            processes::with_birthmark(&self.id).is_empty()
        });
        self.expect_recorded_end();
        assert_eq!(transient_files(self.sandbox, &self.id), Vec::<PathBuf>::new());
    }
}

/// Returns a recorded process if it is alive.
fn living_process(recorded: ProcRef) -> Option<Process> {
    let process = Process { pid: recorded.pid.try_into().ok()?, start: recorded.start_ticks };
    process.is_alive().then_some(process)
}

/// Prepares the start of a shell text with a terminal, in the background.
pub(crate) fn start_call(sandbox: &Sandbox, flags: &[&str], command: &str) -> Invocation {
    let run = ["run", "--pty", "--background", "--json", "--allow-duplicate"];
    sandbox.siding(&[&run, flags, &["--", command]].concat())
}

/// Starts a call and waits until the shim of its task stops at the failpoint `point`. Returns the
/// call, the task and the shim.
#[track_caller]
pub(crate) fn spawn_until_paused<'s>(
    sandbox: &'s Sandbox,
    call: Invocation,
    point: &str,
) -> (RunningProgram, TerminalTask<'s>, Process) {
    let client = call.pause_at(point).spawn();
    let (id, shim) = eventually_some(&format!("a shim is paused at `{point}`"), || {
        sandbox.task_ids().into_iter().find_map(|id| Some((id.clone(), paused_shim(&id)?)))
    });
    (client, TerminalTask::from_id(sandbox, &id), shim)
}

/// Returns the shim of a task if it has stopped at a failpoint.
pub(crate) fn paused_shim(id: &str) -> Option<Process> {
    processes::with_birthmark(id).into_iter().find(|process| {
        processes::comm(process.pid) == SHIM_NAME && processes::state(process.pid) == Some('T')
    })
}

/// Kills a process and waits until it has exited.
#[track_caller]
pub(crate) fn kill_and_wait(process: Process) {
    process.kill();
    eventually(&format!("{} is dead", process.pid), || !process.is_alive());
}

/// Returns the rows of the JSON of a screen.
pub(crate) fn rows_of(screen: &Value) -> Vec<String> {
    let rows = screen["rows"].as_array().expect("a list of rows");
    rows.iter().map(|row| row.as_str().expect("a text").to_owned()).collect()
}

/// Asserts that one of the rows contains `part`.
#[track_caller]
pub(crate) fn assert_shows(rows: &[String], part: &str) {
    assert!(rows.iter().any(|row| row.contains(part)), "no row has {part:?}: {rows:#?}");
}

/// Asserts that siding refused a call, and that the message contains `part`.
#[track_caller]
pub(crate) fn expect_refusal(done: ProgramOutput, part: &str) {
    let done = done.expect_code(125);
    assert!(done.stderr_text().contains(part), "{part:?} is missing: {done}");
}

/// Returns a sandbox that fails the test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Runs a test as the current user, and, if that is root, also as an ordinary user.
pub(crate) fn as_each_user(test: impl Fn(Sandbox)) {
    test(sandbox());
    if is_root() {
        // No other process of the machine runs as this user.
        let mut sandbox = Sandbox::new_for_uid(64_100 + std::process::id() % 900);
        sandbox.expect_clean();
        test(sandbox);
    }
}

/// Returns a shell text that waits until the test creates the file `name`, or until the sandbox
/// kills the shell.
pub(crate) fn wait_for_file_command(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep .02; done")
}

/// Creates a file in the working directory of the tasks.
pub(crate) fn write_file(sandbox: &Sandbox, name: &str, text: &str) {
    std::fs::write(sandbox.path(name), text).expect("test directory");
}

/// Returns the sockets and FIFOs below the sandbox's directory whose path contains a task's id.
fn transient_files(sandbox: &Sandbox, id: &str) -> Vec<PathBuf> {
    use std::os::unix::fs::FileTypeExt as _;
    let is_transient = |path: &PathBuf| {
        let kind = path.symlink_metadata().map(|found| found.file_type());
        kind.is_ok_and(|kind| kind.is_socket() || kind.is_fifo())
            && path.display().to_string().contains(id)
    };
    let mut found = files_below(sandbox.root());
    found.retain(is_transient);
    found
}

/// Returns everything below a directory except directories.
pub(crate) fn files_below(directory: &std::path::Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return vec![] };
    let paths = entries.flatten().map(|entry| (entry.path(), entry.file_type()));
    paths
        .flat_map(|(path, kind)| {
            if kind.is_ok_and(|kind| kind.is_dir()) { files_below(&path) } else { vec![path] }
        })
        .collect()
}

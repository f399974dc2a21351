//! Helpers for tests that start, stop and inspect tasks.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use siding_e2e::{
    Invocation, Process, ProgramOutput, Sandbox, Terminal, eventually, is_root, processes,
};

/// Upper bound for the duration of a call that does not wait. It suffices on a machine with forty
/// busy processes per core. A call that waited by mistake would take at least twenty seconds.
pub(crate) const PROMPT_RETURN: Duration = Duration::from_secs(8);

/// A task in a sandbox, identified by its id.
pub(crate) struct Task<'s> {
    sandbox: &'s Sandbox,
    pub(crate) id: String,
}

impl<'s> Task<'s> {
    /// Starts a shell text in the background.
    #[track_caller]
    pub(crate) fn start(sandbox: &'s Sandbox, command: &str) -> Self {
        Self::start_with(sandbox, &[], command)
    }

    /// Starts a shell text in the background, with additional flags.
    #[track_caller]
    pub(crate) fn start_with(sandbox: &'s Sandbox, flags: &[&str], command: &str) -> Self {
        let args = [&["run", "--background", "--json"], flags, &["--", command]].concat();
        Self::from_view(sandbox, &sandbox.siding(&args).run().expect_code(0).json())
    }

    /// Starts puppets in the background.
    #[track_caller]
    pub(crate) fn start_puppet(sandbox: &'s Sandbox, flags: &[&str], verbs: &[&str]) -> Self {
        Self::start_with(sandbox, flags, &format!("exec {}", sandbox.puppet_line(verbs)))
    }

    /// Returns the task whose id is in the JSON that a call has printed.
    #[track_caller]
    pub(crate) fn from_view(sandbox: &'s Sandbox, view: &Value) -> Self {
        let id = view["task_id"].as_str().expect("a task id").to_owned();
        Self { sandbox, id }
    }

    /// Returns the only task of the sandbox.
    #[track_caller]
    pub(crate) fn only(sandbox: &'s Sandbox) -> Self {
        let ids = sandbox.task_ids();
        let [id] = ids.as_slice() else { panic!("expected exactly one task: {ids:?}") };
        Self { sandbox, id: id.clone() }
    }

    /// Stops the task and returns the JSON that `siding stop` prints.
    #[track_caller]
    pub(crate) fn stop(&self, flags: &[&str]) -> Value {
        let args = [&["stop", "--json"], flags, &[&self.id]].concat();
        let done = self.sandbox.siding(&args).run().expect_code(0);
        println!("stopped after {:?}", done.elapsed);
        done.json()
    }

    /// Returns the JSON of `siding show`.
    #[track_caller]
    pub(crate) fn show(&self) -> Value {
        let call = self.sandbox.siding(&["show", "--json", &self.id]);
        call.run().expect_code(0).json()
    }

    /// Waits for the task's end and returns the outcome.
    #[track_caller]
    pub(crate) fn wait_outcome(&self) -> Value {
        let args = ["wait", "--all", "--json", "--timeout", "30s", &self.id];
        self.sandbox.siding(&args).run().expect_code(0).json()["by"][0]["detail"].clone()
    }

    /// Returns the contents of the output file.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&self.read_task_file("output")).into_owned()
    }

    /// Returns the journal, one record per line.
    pub(crate) fn journal(&self) -> String {
        String::from_utf8_lossy(&self.read_task_file("journal")).into_owned()
    }

    /// Returns the read cursor of the implicit session `cli`.
    pub(crate) fn read_cursor(&self) -> String {
        String::from_utf8_lossy(&self.read_task_file("seen.cli")).into_owned()
    }

    fn read_task_file(&self, name: &str) -> Vec<u8> {
        let dir = self.sandbox.state_dir().join("tasks").join(&self.id);
        std::fs::read(dir.join(name)).unwrap_or_default()
    }

    /// Returns the living processes with the task's birthmark, except its shim.
    pub(crate) fn marked_processes(&self) -> Vec<Process> {
        let mut marked = processes::with_birthmark(&self.id);
        // The shim and the holder of the task's terminal, which exit after the task.
        let own = ["siding-shim", "siding-terminal"];
        marked.retain(|process| !own.contains(&processes::comm(process.pid).as_str()));
        marked
    }

    /// Asserts what a stop promises: no process of the task and no puppet of the sandbox is alive,
    /// the journal has exactly one final record, and the shim exits.
    #[track_caller]
    pub(crate) fn expect_stopped(&self) {
        let living = |process: &Process| process.is_alive();
        let leftover: Vec<String> = self
            .sandbox
            .announcements()
            .iter()
            .map(|step| step.process)
            .filter(living)
            .chain(self.marked_processes())
            .map(|left| format!("{} {}", left.pid, processes::command_line(left.pid)))
            .collect();
        assert!(leftover.is_empty(), "{} left {leftover:#?}", self.id);
        self.expect_one_end();
        eventually("its shim has exited", || processes::with_birthmark(&self.id).is_empty());
    }

    /// Asserts that the journal has exactly one final record.
    #[track_caller]
    pub(crate) fn expect_one_end(&self) {
        let journal = self.journal();
        let ends = journal.matches(r#""record":"closed""#).count();
        assert_eq!(ends, 1, "ends in {journal}");
    }
}

/// Returns the processes that a stop has ended, from the JSON of the task: for each pid, the name
/// of the last signal that siding sent.
pub(crate) fn ended_processes(view: &Value) -> BTreeMap<u32, String> {
    let list = view["stop_report"]["ended"].as_array();
    list.into_iter()
        .flatten()
        .map(|one| {
            let pid = one["pid"].as_u64().expect("a number") as u32;
            (pid, one["signal"].as_str().expect("a signal").to_owned())
        })
        .collect()
}

/// Returns the pids of the processes that the JSON of a task lists.
pub(crate) fn listed_pids(view: &Value) -> Vec<u32> {
    let list = view["processes"].as_array().expect("a list");
    list.iter().map(|one| one["pid"].as_u64().expect("a number") as u32).collect()
}

/// Asserts that a call returned promptly, and prints its duration.
#[track_caller]
pub(crate) fn expect_prompt(what: impl Display, done: ProgramOutput) -> ProgramOutput {
    println!("{what}: returned after {:?}", done.elapsed);
    assert!(done.elapsed < PROMPT_RETURN, "{what} is slow: {done}");
    done
}

/// Runs a test as the current user and, if that is root, concurrently as an ordinary user. The uid
/// of that user is unique, because the kernel counts processes per uid.
pub(crate) fn as_each_user(test: impl Fn(Sandbox) + Sync) {
    let test = &test;
    std::thread::scope(|scope| {
        let spawn_test = |name: &str, sandbox: Sandbox| {
            std::thread::Builder::new()
                .name(format!("as {name}"))
                .spawn_scoped(scope, move || test(with_clean_check(sandbox)))
                .expect("a thread can be started")
        };
        let me = if is_root() { "root" } else { "oneself" };
        let mut threads = vec![spawn_test(me, Sandbox::new())];
        if let Some(sandbox) = ordinary_user_sandbox() {
            threads.push(spawn_test("an ordinary user", sandbox));
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Returns a sandbox of an unprivileged user that no other test uses, or `None` if the test does
/// not run as root.
pub(crate) fn ordinary_user_sandbox() -> Option<Sandbox> {
    static USER_SANDBOX_COUNT: AtomicU32 = AtomicU32::new(0);
    // Tests that run at the same time have nearby pids, so another sandbox of the same test must
    // have a distant number.
    let offset = USER_SANDBOX_COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(9_973);
    let number = std::process::id().wrapping_add(offset);
    is_root().then(|| Sandbox::new_for_uid(20_000 + number % 40_000))
}

/// Returns a sandbox that fails the test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    with_clean_check(Sandbox::new())
}

fn with_clean_check(mut sandbox: Sandbox) -> Sandbox {
    sandbox.expect_clean();
    sandbox
}

/// Returns a shell text that waits until the test creates the file `name`, or until the sandbox
/// kills the shell.
pub(crate) fn wait_for_file_command(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep .02; done")
}

/// Prepares a call of a shell whose controlling terminal is `terminal`, as in a terminal emulator.
pub(crate) fn shell_on(sandbox: &Sandbox, terminal: &Terminal, args: &[&str]) -> Invocation {
    let args = [&["--ctty", "--wait", "bash", "--norc", "--noprofile"], args].concat();
    sandbox.host("setsid", &args).on_terminal(terminal)
}

/// Creates the file that [`wait_for_file_command`] waits for.
pub(crate) fn create_file(sandbox: &Sandbox, name: &str) {
    std::fs::write(sandbox.path(name), "").expect("test directory");
}

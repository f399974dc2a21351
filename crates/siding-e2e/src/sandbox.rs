//! A private directory and environment for one test, whose processes end with the test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use siding_model::shell_words::join_quoted;

use crate::cgroup_dir;
use crate::invocation::Invocation;
use crate::leftover_processes::{Leftover, SandboxTraces};
use crate::processes;
use crate::programs::{executable_by_others, find_program, is_root, set_cloexec_on_inherited_fds};
use crate::sandbox_dir;

/// Time after a test within which all processes of its sandbox must exit; see
/// [`Sandbox::expect_clean`].
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Name of the program under test.
const SIDING_PROGRAM: &str = "siding-under-test";
/// Lifetime of every puppet, in milliseconds; a kernel timer kills the puppet after it. No test
/// takes that long, even on a loaded machine.
const PUPPET_TTL_MS: &str = "180000";

/// A temporary state directory and home for one test, with a private environment.
///
/// ```text
/// /tmp/sXXXXXX/st          SIDING_STATE_DIR
/// /tmp/sXXXXXX/h           HOME, and the XDG directories
/// /tmp/sXXXXXX/w           working directory of every call, and the test files
/// /tmp/sXXXXXX/puppet.log  where puppets announce their steps
/// ```
/// Dropping the sandbox kills every process that has the sandbox's tag in the variable
/// `PUPPET_SANDBOX` or carries the birthmark of one of the sandbox's tasks. It also kills processes
/// that have announced themselves in the log (the start time is checked), or whose working
/// directory or open files are in the sandbox. Then the directory is removed.
#[derive(Debug)]
pub struct Sandbox {
    root: PathBuf,
    tag: String,
    uid: Option<u32>,
    /// The time within which all processes must exit once the sandbox is dropped; `None` if the
    /// test may leave processes.
    exit_timeout: Option<Duration>,
    task_ids: Mutex<BTreeSet<String>>,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandbox {
    /// Creates a sandbox for the calling user.
    ///
    /// # Panics
    ///
    /// When `/tmp` is not writable.
    #[track_caller]
    pub fn new() -> Self {
        Self::create(None)
    }

    /// Creates a sandbox that is owned by the user and group `uid`; its calls run as that user
    /// unless [`Invocation::as_user`] sets another user. Works only as root: see
    /// [`crate::is_root`].
    ///
    /// # Panics
    ///
    /// When `/tmp` is not writable or the caller is not root.
    #[track_caller]
    pub fn new_for_uid(uid: u32) -> Self {
        assert!(is_root(), "only root can make a sandbox for another user");
        Self::create(Some(uid))
    }

    fn create(uid: Option<u32>) -> Self {
        set_cloexec_on_inherited_fds();
        let root = sandbox_dir::create();
        let name = root.file_name().expect("a directory in /tmp has a name").display().to_string();
        let tag = format!("{name}-{}", std::process::id());
        let sandbox = Self { root, tag, uid, exit_timeout: None, task_ids: Mutex::default() };
        for dir in ["", "st", "h", "h/run", "w"] {
            let dir = sandbox.root.join(dir);
            std::fs::create_dir_all(&dir).expect("test directory");
            sandbox_dir::set_mode_and_owner(&dir, 0o700, uid);
        }
        std::fs::write(sandbox.puppet_log(), "").expect("test directory");
        sandbox_dir::set_mode_and_owner(&sandbox.puppet_log(), 0o666, uid);
        // A call as another user in the same test must be able to open the log and the programs.
        sandbox_dir::set_mode_and_owner(&sandbox.root, 0o711, uid);
        sandbox
    }

    /// Requires the test to end all processes of the sandbox: if one is still alive 20 s after the
    /// sandbox is dropped, the test fails and names this process.
    pub fn expect_clean(&mut self) {
        self.expect_clean_within(EXIT_TIMEOUT);
    }

    /// Like [`Self::expect_clean`], with another time, for a test that leaves a process behind.
    pub fn expect_clean_within(&mut self, timeout: Duration) {
        self.exit_timeout = Some(timeout);
    }

    /// Returns the sandbox's root directory, which contains all its files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the `SIDING_STATE_DIR` of every call.
    pub fn state_dir(&self) -> PathBuf {
        self.root.join("st")
    }

    /// Returns the `HOME` of every call.
    pub fn home(&self) -> PathBuf {
        self.root.join("h")
    }

    /// Returns a path for a file of the test, in the working directory of every call.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join("w").join(name)
    }

    /// Returns the file in which puppets announce their steps.
    pub fn puppet_log(&self) -> PathBuf {
        self.root.join("puppet.log")
    }

    /// Returns the complete environment with which every call starts, unless the test changes it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let inside = |name: &str| self.root.join(name).display().to_string();
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        [
            ("PATH", path),
            ("HOME", inside("h")),
            ("TERM", "dumb".to_owned()),
            ("SIDING_STATE_DIR", inside("st")),
            // Otherwise siding would remove socket files of the machine's own agents.
            ("SIDING_REAP_SOCKETS", inside("w/claude-http-*.sock")),
            // Otherwise siding would end unowned processes of the machine.
            ("SIDING_FOREIGN_REAP", "off".to_owned()),
            // The process that calls hooks is usually the test program itself. A host supervisor
            // would mark that program, and would outlive the sandbox.
            ("SIDING_SUPERVISE_HOSTS", "false".to_owned()),
            ("XDG_STATE_HOME", inside("h/.local/state")),
            ("XDG_CONFIG_HOME", inside("h/.config")),
            ("XDG_DATA_HOME", inside("h/.local/share")),
            ("XDG_CACHE_HOME", inside("h/.cache")),
            ("XDG_RUNTIME_DIR", inside("h/run")),
            ("PUPPET_TTL_MS", PUPPET_TTL_MS.to_owned()),
            ("PUPPET_LOG", inside("puppet.log")),
            ("PUPPET_SANDBOX", self.tag.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Prepares a call of the program under test.
    pub fn siding<A: AsRef<str>>(&self, args: &[A]) -> Invocation {
        self.remember_task_ids();
        self.prepare_call(SIDING_PROGRAM, args)
    }

    /// Prepares a direct call of `puppet` with these verbs. The call does not fail if descendants
    /// of puppet hold its output open.
    pub fn puppet<A: AsRef<str>>(&self, verbs: &[A]) -> Invocation {
        self.prepare_call("puppet", verbs).allow_held_output()
    }

    /// Prepares a call of any other program in this sandbox, such as a shell in the role of the
    /// host. The call does not fail if descendants of the program hold its output open.
    pub fn host<A: AsRef<str>>(&self, program: &str, args: &[A]) -> Invocation {
        self.remember_task_ids();
        self.prepare_program_call(Path::new(program), args).allow_held_output()
    }

    fn prepare_call<A: AsRef<str>>(&self, name: &str, args: &[A]) -> Invocation {
        self.prepare_program_call(&self.program_path(name), args)
    }

    fn prepare_program_call<A: AsRef<str>>(&self, program: &Path, args: &[A]) -> Invocation {
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        let mut command = Command::new(program);
        command.args(&args).env_clear().envs(self.environment()).current_dir(self.path(""));
        let name = program.file_name().unwrap_or_default().display();
        let call = Invocation::new(command, format!("{name} {}", args.join(" ")));
        match self.uid {
            Some(uid) => call.as_user(uid, uid),
            None => call,
        }
    }

    /// Returns the path of the program under test.
    pub fn siding_program(&self) -> PathBuf {
        self.program_path(SIDING_PROGRAM)
    }

    fn program_path(&self, name: &str) -> PathBuf {
        let found = find_program(name);
        // Only root can run a call as another user.
        if is_root() { executable_by_others(&found, &self.root) } else { found }
    }

    /// Returns the words of a command that runs `puppet` with these verbs. They include `--log`, so
    /// that the puppet announces its steps in the log even with an empty environment.
    pub fn puppet_argv<A: AsRef<str>>(&self, verbs: &[A]) -> Vec<String> {
        let head = [self.program_path("puppet"), "--log".into(), self.puppet_log()];
        let head = head.iter().map(|word| word.display().to_string());
        head.chain(verbs.iter().map(|verb| verb.as_ref().to_owned())).collect()
    }

    /// Returns the command of [`Self::puppet_argv`] as one line for a shell, with words quoted
    /// where necessary.
    pub fn puppet_line<A: AsRef<str>>(&self, verbs: &[A]) -> String {
        join_quoted(self.puppet_argv(verbs))
    }

    /// Returns a call of the program under test as one line for a shell.
    pub fn siding_line<A: AsRef<str>>(&self, args: &[A]) -> String {
        let program = self.siding_program().display().to_string();
        let args = args.iter().map(|arg| arg.as_ref().to_owned());
        join_quoted(std::iter::once(program).chain(args))
    }

    /// Returns the ids of all tasks found in the state directory so far, including removed tasks.
    ///
    /// # Panics
    ///
    /// When another thread panicked while it held the lock.
    pub fn task_ids(&self) -> Vec<String> {
        self.remember_task_ids();
        self.task_ids.lock().expect("the lock is not poisoned").iter().cloned().collect()
    }

    /// Stores the ids of the tasks that exist now, because a test may remove the directories of
    /// tasks whose processes are still alive.
    fn remember_task_ids(&self) {
        let Ok(tasks) = std::fs::read_dir(self.state_dir().join("tasks")) else {
            return;
        };
        let names = tasks.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        self.task_ids.lock().expect("the lock is not poisoned").extend(names);
    }

    fn traces(&self) -> SandboxTraces {
        let ids = self.task_ids();
        SandboxTraces {
            tag: format!("PUPPET_SANDBOX={}", self.tag),
            root: self.root.clone(),
            log: self.puppet_log(),
            birthmarks: ids.iter().filter_map(|id| processes::birthmark_from_id(id)).collect(),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let traces = self.traces();
        let leftovers =
            self.exit_timeout.map_or_else(Vec::new, |timeout| traces.wait_for_exit(timeout));
        let unkillable = traces.kill_all();
        cgroup_dir::remove_task_groups(&self.task_ids());
        sandbox_dir::remove(&self.root);
        // A panic during a panic aborts the program, and the message of the failed test would be
        // lost.
        if std::thread::panicking() {
            return;
        }
        let list =
            |left: &[_]| left.iter().map(|one: &Leftover| format!("\n  {one}")).collect::<String>();
        assert!(unkillable.is_empty(), "processes could not be killed:{}", list(&unkillable));
        assert!(leftovers.is_empty(), "the test left processes behind:{}", list(&leftovers));
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn dropping_a_sandbox_removes_its_directory() {
        let sandbox = Sandbox::new();
        let root = sandbox.root().to_owned();
        assert!(root.as_os_str().len() <= 12, "short enough for a socket: {}", root.display());
        std::fs::create_dir(sandbox.path("locked")).expect("test directory");
        std::fs::set_permissions(sandbox.path("locked"), Permissions::from_mode(0o0))
            .expect("test directory");
        drop(sandbox);
        assert!(!root.exists());
    }
}

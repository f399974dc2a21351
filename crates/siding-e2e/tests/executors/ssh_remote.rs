//! A machine that siding reaches over ssh: an sshd on 127.0.0.1 whose commands have a home, and
//! therefore a state directory, of their own. `tools/engines/README.md` describes the sshd.

use std::path::{Path, PathBuf};

use serde_json::Value;
use siding_e2e::{Invocation, Sandbox, eventually, eventually_some};

use crate::fake_ssh::write_program;
use crate::local_tasks::{read_output, show_task, task_id, wait_for_outcome, write_config};

const SSHD_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/engines/sshd.sh");
/// `MaxSessions` of sshd_config(5) for a machine on which all tasks can share a connection.
const MANY_SESSIONS: u32 = 1_000;
/// Variables that would give a remote call the directories of the sandbox.
const DIRECTORY_VARIABLES: [&str; 6] = [
    "SIDING_STATE_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
/// Keys of the executor that pass the variables of puppets, so that the sandbox recognizes the
/// remote processes.
const PUPPET_VARIABLES: &str = "env = [\"PUPPET_*\"]\n";

/// Writes user settings with the executor `build`, which has `keys` in addition to its destination
/// and program.
#[track_caller]
pub(crate) fn write_executor(sandbox: &Sandbox, keys: &str) {
    let program = sandbox.siding_program();
    let text =
        format!("[executor.build]\nhost = \"remote\"\nprogram = \"{}\"\n{keys}", program.display());
    write_config(&sandbox.home(), &text);
}

/// A machine that is reached over ssh, and is the executor `build` of a sandbox. Dropping this
/// value ends the sshd, but not the tasks.
#[derive(Debug)]
pub(crate) struct SshRemote<'s> {
    pub(crate) sandbox: &'s Sandbox,
    dir: PathBuf,
}

impl<'s> SshRemote<'s> {
    /// Starts the sshd and writes the settings of both sides.
    #[track_caller]
    pub(crate) fn start(sandbox: &'s Sandbox) -> Self {
        Self::start_with_session_limit(sandbox, MANY_SESSIONS)
    }

    /// Like [`Self::start`]; the remote commands have the variable `SLURM_CONF` with this value.
    #[track_caller]
    pub(crate) fn start_with_slurm_conf(sandbox: &'s Sandbox, path: &Path) -> Self {
        Self::start_sshd(sandbox, MANY_SESSIONS, &format!("SLURM_CONF={}", path.display()))
    }

    /// Like [`Self::start`]; the sshd refuses more sessions than `limit` in one connection.
    #[track_caller]
    pub(crate) fn start_with_session_limit(sandbox: &'s Sandbox, limit: u32) -> Self {
        Self::start_sshd(sandbox, limit, "")
    }

    #[track_caller]
    fn start_sshd(sandbox: &'s Sandbox, session_limit: u32, variables: &str) -> Self {
        let remote = Self { sandbox, dir: sandbox.root().join("ssh") };
        let up = remote.script("up").env("SSHD_MAX_SESSIONS", session_limit.to_string());
        let up = up.env("SSHD_SET_ENV", variables);
        let config = up.run().expect_code(0).stdout_text();
        remote.write_ssh_wrapper(config.trim_end());
        write_executor(sandbox, PUPPET_VARIABLES);
        // Otherwise the remote siding would terminate unowned processes of this machine, and
        // supervise the hosts that run here.
        write_config(&remote.home(), "foreign_reap = \"off\"\nsupervise_hosts = false\n");
        remote
    }

    /// Writes the program `ssh` for [`Self::siding`]: siding itself passes no configuration to ssh.
    fn write_ssh_wrapper(&self, config: &str) {
        std::fs::create_dir(self.wrapper_dir()).expect("test directory");
        self.write_local_program("ssh", &format!("exec /usr/bin/ssh -F {config} \"$@\""));
    }

    /// Writes or replaces a program of this machine, as a text of sh(1), for [`Self::siding`].
    #[track_caller]
    pub(crate) fn write_local_program(&self, name: &str, script: &str) {
        let new = self.wrapper_dir().join("new");
        write_program(&new, script);
        std::fs::rename(&new, self.wrapper_dir().join(name)).expect("test directory");
    }

    fn wrapper_dir(&self) -> PathBuf {
        self.dir.join("bin")
    }

    fn script(&self, command: &str) -> Invocation {
        self.sandbox.host(SSHD_SCRIPT, &[command, &self.dir.display().to_string()])
    }

    /// Breaks all connections, and refuses new ones until [`Self::restore`]. The remote commands
    /// continue.
    #[track_caller]
    pub(crate) fn cut(&self) {
        let _done = self.script("cut").run().expect_code(0);
    }

    /// Accepts connections again.
    #[track_caller]
    pub(crate) fn restore(&self) {
        let _done = self.script("restore").run().expect_code(0);
    }

    /// Returns the number of connections.
    #[track_caller]
    pub(crate) fn connection_count(&self) -> usize {
        let done = self.script("sessions").run().expect_code(0);
        done.stdout_text().trim().parse().expect("a number")
    }

    /// Returns the remote `HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir.join("remote-home")
    }

    /// Returns the `PATH` with the `ssh` of this machine.
    pub(crate) fn path_variable(&self) -> String {
        let variables = self.sandbox.environment();
        let path = variables.into_iter().find(|(name, _)| name == "PATH").expect("it is set").1;
        format!("{}:{path}", self.wrapper_dir().display())
    }

    /// Prepares a local call of siding that may start the connection. Other calls must not need it:
    /// the specification of a task contains the `PATH` for its ssh.
    pub(crate) fn siding<A: AsRef<str>>(&self, args: &[A]) -> Invocation {
        self.sandbox.siding(args).env("PATH", self.path_variable())
    }

    /// Prepares a call of siding on the remote machine.
    pub(crate) fn remote_siding<A: AsRef<str>>(&self, args: &[A]) -> Invocation {
        let call = self.sandbox.siding(args).env("HOME", self.home());
        DIRECTORY_VARIABLES.iter().fold(call, |call, name| call.env_remove(name))
    }

    /// Prepares `siding run --on build --json` with a shell text.
    pub(crate) fn run(&self, flags: &[&str], command: &str) -> Invocation {
        self.siding(&[&["run", "--on", "build", "--json"], flags, &["--", command]].concat())
    }

    /// Starts a shell text on the remote machine in the background, and returns the task's id.
    #[track_caller]
    pub(crate) fn start_task(&self, flags: &[&str], command: &str) -> String {
        let flags = [&["--background"], flags].concat();
        task_id(&self.run(&flags, command).run().expect_code(0))
    }

    /// Returns the JSON of the local `siding show`.
    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        show_task(self.sandbox, id)
    }

    /// Returns the JSON of `siding show` on the remote machine.
    #[track_caller]
    pub(crate) fn remote_show(&self, id: &str) -> Value {
        self.remote_siding(&["show", "--json", id]).run().expect_code(0).json()
    }

    /// Waits for a task's end on this machine, and returns the outcome.
    #[track_caller]
    pub(crate) fn wait_outcome(&self, id: &str) -> Value {
        wait_for_outcome(self.sandbox, id)
    }

    /// Waits until the connection of a task is recorded as interrupted, and returns the description
    /// of the interruption.
    #[track_caller]
    pub(crate) fn wait_until_unreachable(&self, id: &str) -> Value {
        eventually_some(&format!("the machine of {id} is unreachable"), || {
            let mut view = self.show(id);
            view["unreachable"].is_object().then(|| view["unreachable"].take())
        })
    }

    /// Waits until the connection of a task is recorded as established.
    #[track_caller]
    pub(crate) fn wait_until_reachable(&self, id: &str) {
        eventually(&format!("the machine of {id} is reachable"), || {
            let view = self.show(id);
            view["unreachable"].is_null() && view["machine"].is_string()
        });
    }

    /// Returns the output that the local mirror of a task has stored.
    pub(crate) fn output(&self, id: &str) -> String {
        read_output(&self.sandbox.state_dir(), id)
    }

    /// Returns the output that the remote machine has stored.
    pub(crate) fn remote_output(&self, id: &str) -> String {
        read_output(&self.remote_state_dir(), id)
    }

    /// Waits until the local mirror of a task has stored at least `bytes` bytes of output.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, id: &str, bytes: usize) {
        eventually(&format!("{bytes} bytes of {id} are stored"), || self.output(id).len() >= bytes);
    }

    /// Returns the ids of the tasks in the remote state directory.
    pub(crate) fn remote_task_ids(&self) -> Vec<String> {
        let Ok(tasks) = std::fs::read_dir(self.remote_state_dir().join("tasks")) else {
            return vec![];
        };
        tasks.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn remote_state_dir(&self) -> PathBuf {
        self.home().join(".local/state/siding")
    }
}

impl Drop for SshRemote<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.join("sshd.log")).unwrap_or_default();
            eprintln!("--- sshd.log\n{log}---");
        }
        let _best_effort = self.script("down").run();
    }
}

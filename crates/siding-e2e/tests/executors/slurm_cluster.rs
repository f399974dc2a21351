//! A Slurm cluster on this machine for one test. The nodes share the state directory of the
//! sandbox. `tools/engines/README.md` describes the cluster.

use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{Invocation, Process, Sandbox, eventually, eventually_some};

use crate::local_tasks::{read_output, task_id, write_config};

const SLURM_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/engines/slurm.sh");
/// The environment variable with the path of the cluster's configuration.
const CONFIG_VARIABLE: &str = "SLURM_CONF";

/// A cluster that is the executor `cluster` of a sandbox. Dropping this value stops the cluster's
/// jobs and daemons.
#[derive(Debug)]
pub(crate) struct SlurmCluster<'s> {
    pub(crate) sandbox: &'s Sandbox,
    dir: PathBuf,
}

impl<'s> SlurmCluster<'s> {
    /// Starts the daemons and writes the settings.
    #[track_caller]
    pub(crate) fn start(sandbox: &'s Sandbox) -> Self {
        Self::start_daemons(sandbox, "")
    }

    /// Like [`Self::start`], for a cluster that limits the memory of jobs with control groups.
    #[track_caller]
    pub(crate) fn start_with_memory_groups(sandbox: &'s Sandbox) -> Self {
        Self::start_daemons(sandbox, "yes")
    }

    #[track_caller]
    fn start_daemons(sandbox: &'s Sandbox, memory_groups: &str) -> Self {
        let cluster = Self { sandbox, dir: sandbox.root().join("slurm") };
        let up = cluster.script("up").env("SLURM_MEMORY_GROUPS", memory_groups);
        let _done = up.run().expect_code(0);
        let program = sandbox.siding_program();
        cluster.write_settings(&format!("program = \"{}\"\n", program.display()));
        cluster
    }

    /// Writes the settings with these keys of the executor, in addition to those that all tests
    /// need.
    #[track_caller]
    pub(crate) fn write_settings(&self, keys: &str) {
        // The sandbox recognizes the processes of jobs by the variables of puppets. `foreign_reap`
        // and `supervise_hosts` are off so that siding on a node terminates no process of this
        // machine.
        let settings = format!(
            "foreign_reap = \"off\"\nsupervise_hosts = false\n[executor.cluster]\n\
             kind = \"slurm\"\nenv = [\"PUPPET_*\"]\n{keys}"
        );
        write_config(&self.sandbox.home(), &settings);
    }

    /// Returns the path of the cluster's configuration, which clients read from `SLURM_CONF`.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.join("slurm.conf")
    }

    /// Returns the process of slurmctld.
    #[track_caller]
    pub(crate) fn controller(&self) -> Process {
        let pid = std::fs::read_to_string(self.dir.join("slurmctld.pid")).expect("it was started");
        Process::from_pid(pid.trim().parse().expect("a pid")).expect("slurmctld runs")
    }

    /// Returns the directory with the files of a task's job.
    pub(crate) fn job_directory(&self, id: &str) -> PathBuf {
        self.sandbox.state_dir().join("jobs").join(id)
    }

    fn script(&self, command: &str) -> Invocation {
        self.sandbox.host(SLURM_SCRIPT, &[command, &self.dir.display().to_string()])
    }

    /// Runs a command of the script.
    #[track_caller]
    fn control(&self, command: &str) {
        let _done = self.script(command).run().expect_code(0);
    }

    /// Stops slurmctld. Its state stays on disk, and the jobs continue.
    #[track_caller]
    pub(crate) fn stop_controller(&self) {
        self.control("stop-controller");
    }

    /// Starts slurmctld again.
    #[track_caller]
    pub(crate) fn start_controller(&self) {
        self.control("start-controller");
    }

    /// Kills slurmd and the jobs on all nodes, like a power failure.
    #[track_caller]
    pub(crate) fn crash_nodes(&self) {
        self.control("crash-node");
    }

    /// Keeps new jobs in the queue until [`Self::undrain`].
    #[track_caller]
    pub(crate) fn drain(&self) {
        self.control("drain");
    }

    /// Lets waiting and new jobs start.
    #[track_caller]
    pub(crate) fn undrain(&self) {
        self.control("undrain");
    }

    /// Makes slurmctld forget the jobs that have ended.
    #[track_caller]
    pub(crate) fn forget_ended(&self) {
        self.control("forget-ended");
    }

    /// Prepares a call of a program that uses the cluster.
    fn with_cluster(&self, call: Invocation) -> Invocation {
        call.env(CONFIG_VARIABLE, self.config_path())
    }

    /// Prepares a call of siding with the variable of the cluster, which a call that submits a job
    /// needs. Other calls must work without it, because the specification of a task contains it.
    pub(crate) fn siding<A: AsRef<str>>(&self, args: &[A]) -> Invocation {
        self.with_cluster(self.sandbox.siding(args))
    }

    /// Prepares `siding run --on cluster --json` with a shell text.
    pub(crate) fn run(&self, flags: &[&str], command: &str) -> Invocation {
        self.siding(&[&["run", "--on", "cluster", "--json"], flags, &["--", command]].concat())
    }

    /// Starts a shell text as a job in the background, and returns the task's id.
    #[track_caller]
    pub(crate) fn start_task(&self, flags: &[&str], command: &str) -> String {
        let flags = [&["--background"], flags].concat();
        task_id(&self.run(&flags, command).run().expect_code(0))
    }

    /// Returns the output of a program of Slurm.
    #[track_caller]
    pub(crate) fn client(&self, program: &str, args: &[&str]) -> String {
        let call = self.with_cluster(self.sandbox.host(program, args));
        call.run().expect_code(0).stdout_text().trim_end().to_owned()
    }

    /// Returns the value of a field of squeue(1) for the job of a task; `None` without a job.
    #[track_caller]
    pub(crate) fn job_field(&self, id: &str, field: &str) -> Option<String> {
        let name = format!("siding-{id}");
        let args = ["--noheader", "--states=all", "--name", &name, "--format", field];
        let text = self.client("squeue", &args);
        text.lines().next().map(str::to_owned)
    }

    /// Waits until the job of a task exists, and returns its number.
    #[track_caller]
    pub(crate) fn job_id(&self, id: &str) -> String {
        eventually_some(&format!("{id} has a job"), || self.job_field(id, "%i"))
    }

    /// Waits until the job of a task is recorded as waiting, and returns its status.
    #[track_caller]
    pub(crate) fn wait_until_queued(&self, id: &str) -> Value {
        eventually_some(&format!("the job of {id} waits"), || {
            // A task that a workflow has just started has no record yet.
            let shown = self.sandbox.siding(&["show", "--json", id]).run();
            let queued = (shown.code == Some(0)).then(|| shown.json()["queued"].take())?;
            queued["job_id"].is_string().then_some(queued)
        })
    }

    /// Waits until a task has stored at least `bytes` bytes of output on this machine.
    #[track_caller]
    pub(crate) fn wait_for_output(&self, id: &str, bytes: usize) {
        eventually(&format!("{bytes} bytes of {id} are stored"), || self.output(id).len() >= bytes);
    }

    /// Returns the output that the mirror of a task has stored.
    pub(crate) fn output(&self, id: &str) -> String {
        read_output(&self.sandbox.state_dir(), id)
    }
}

impl Drop for SlurmCluster<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.join("slurmctld.log")).unwrap_or_default();
            eprintln!("--- slurmctld.log\n{log}---");
        }
        let _best_effort = self.script("down").run();
    }
}

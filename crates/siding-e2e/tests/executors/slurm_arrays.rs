//! The instances of a matrix step of a workflow are one job array, and each is a task of its own.

use std::path::PathBuf;

use serde_json::{Value, json};
use siding_e2e::{Sandbox, eventually, eventually_some};

use crate::fake_slurm::FakeSlurm;
use crate::local_tasks::{show_task, task_id, wait_for_outcome};
use crate::slurm_cluster::SlurmCluster;
use crate::{create_file, sandbox, wait_for_file_command};

/// A script that siding executes in place of sbatch. The script records its calls.
#[derive(Debug)]
struct SbatchScript {
    fake: FakeSlurm,
    calls: PathBuf,
}

impl SbatchScript {
    /// Writes the script. `text` is executed after a call was recorded, and runs the real `sbatch`.
    #[track_caller]
    fn new(sandbox: &Sandbox, text: &str) -> Self {
        let (fake, calls) = (FakeSlurm::new(sandbox), sandbox.path("sbatch-calls"));
        fake.write("sbatch", &format!("echo \"$*\" >> {}\n{text}", calls.display()));
        Self { fake, calls }
    }

    /// Returns the arguments of each call.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.calls).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Starts a workflow with one matrix step, whose instances have the numbers below `count`.
    /// Returns its id and those of the instances' tasks.
    #[track_caller]
    fn start_matrix(
        &self,
        cluster: &SlurmCluster<'_>,
        count: usize,
        command: &str,
    ) -> (String, Vec<String>) {
        let sandbox = cluster.sandbox;
        let values: Vec<usize> = (0..count).collect();
        let text = format!(
            "[[step]]\nid = \"part\"\non = \"cluster\"\nmatrix = {{ n = {values:?} }}\n\
             run = '''\n{command}\n'''\n"
        );
        let file = sandbox.path("flow.toml");
        std::fs::write(&file, text).expect("test directory");
        let (file, most) = (file.display().to_string(), count.to_string());
        let args: &[&str] = &["workflow", "run", "--background", "--json", "--keep-going"];
        let args = [args, &["--max-parallel", &most, &file]].concat();
        let id = task_id(&self.fake.in_path(cluster.siding(&args)).run().expect_code(0));
        let tasks = eventually_some("all instances have a task", || {
            let steps = show_steps(sandbox, &id);
            let tasks = steps.iter().map(|step| step["task_id"].as_str().map(str::to_owned));
            tasks.collect::<Option<Vec<_>>>().filter(|tasks| tasks.len() == count)
        });
        (id, tasks)
    }
}

/// Returns the steps of a workflow, as `siding workflow show` prints them.
#[track_caller]
fn show_steps(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let done = sandbox.siding(&["workflow", "show", "--json", id]).run().expect_code(0);
    done.json()["steps"].as_array().expect("steps").clone()
}

/// Returns the states of the steps of a workflow after its end.
#[track_caller]
fn wait_for_states(sandbox: &Sandbox, id: &str) -> Vec<Value> {
    let _over = sandbox.siding(&["wait", "--all", "--timeout", "55s", id]).run().expect_code(0);
    show_steps(sandbox, id).iter_mut().map(|step| step["state"].take()).collect()
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn the_instances_of_a_matrix_are_submitted_once_and_have_their_own_ends() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let sbatch = SbatchScript::new(&sandbox, "exec sbatch \"$@\"");
    let gate = sandbox.path("go");
    let wait = wait_for_file_command(&gate);
    let command = format!("echo \"part $MATRIX_N\"\n{wait}\n[ $MATRIX_N != 4 ] || exit 9");
    let (workflow, tasks) = sbatch.start_matrix(&cluster, 6, &command);
    for id in &tasks {
        cluster.wait_for_output(id, "part 0\n".len());
    }
    let calls = sbatch.calls();
    assert!(calls.len() == 1 && calls[0].contains("--array=0-5"), "{calls:?}");
    let jobs = cluster.client("squeue", &["--noheader", "--array", "--format", "%i"]);
    let mut jobs: Vec<&str> = jobs.lines().collect();
    jobs.sort_unstable();
    let (array, _) = jobs[0].split_once('_').expect("an element of an array");
    assert_eq!(jobs, [0, 1, 2, 3, 4, 5].map(|index| format!("{array}_{index}")));

    let stopped = sandbox.siding(&["stop", "--json", &tasks[5]]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    for id in &tasks[..5] {
        assert!(show_task(&sandbox, id)["outcome"].is_null(), "{id} was stopped as well");
    }
    create_file(&gate);
    for (index, id) in tasks.iter().enumerate() {
        // The stop has added a line to the output of its task.
        assert!(cluster.output(id).starts_with(&format!("part {index}\n")), "{id}");
    }
    for id in &tasks[..4] {
        assert_eq!(wait_for_outcome(&sandbox, id), json!({"kind": "exited", "code": 0}), "{id}");
    }
    assert_eq!(wait_for_outcome(&sandbox, &tasks[4]), json!({"kind": "exited", "code": 9}));
    let states = wait_for_states(&sandbox, &workflow);
    assert_eq!(states, ["ok", "ok", "ok", "ok", "failed", "failed"]);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn an_element_of_an_array_is_stopped_in_the_queue_alone() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let sbatch = SbatchScript::new(&sandbox, "exec sbatch \"$@\"");
    let (workflow, tasks) = sbatch.start_matrix(&cluster, 3, "exit $MATRIX_N");
    for (index, id) in tasks.iter().enumerate() {
        let queued = cluster.wait_until_queued(id);
        let job = queued["job_id"].as_str().expect("a number");
        assert!(job.ends_with(&format!("_{index}")), "{queued}");
    }
    let steps = show_steps(&sandbox, &workflow);
    assert!(steps.iter().all(|step| step["queued"]["job_id"].is_string()), "{steps:?}");
    let text = sandbox.siding(&["workflow", "show", &workflow]).run().expect_code(0).stdout_text();
    assert_eq!(text.lines().filter(|line| line.starts_with("queued ")).count(), 3, "{text}");
    let stopped = sandbox.siding(&["stop", "--json", &tasks[1]]).run().expect_code(0).json();
    assert_eq!(stopped["outcome"], json!({"kind": "stopped", "by": "user"}), "{stopped}");
    cluster.undrain();
    for (id, code) in [(&tasks[0], 0), (&tasks[2], 2)] {
        assert_eq!(wait_for_outcome(&sandbox, id), json!({"kind": "exited", "code": code}), "{id}");
    }
    assert_eq!(sbatch.calls().len(), 1);
}

/// A list of the jobs is up to 5 s old, so a stop that waited for one would take several lists.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_stop_of_waiting_elements_needs_no_list_of_the_jobs() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let refuse = sandbox.path("refuse");
    let sbatch = SbatchScript::new(&sandbox, "exec sbatch \"$@\"");
    let script = format!("[ ! -e {} ] || exit 1\nexec squeue \"$@\"", refuse.display());
    sbatch.fake.write("squeue", &script);
    let (workflow, tasks) = sbatch.start_matrix(&cluster, 4, "true");
    for id in &tasks {
        cluster.wait_until_queued(id);
    }
    create_file(&refuse);
    let _stopped = sandbox.siding(&["stop", &workflow]).run().expect_code(0);
    for id in &tasks {
        assert_eq!(show_task(&sandbox, id)["outcome"]["kind"], "stopped", "{id}");
    }
    assert_eq!(cluster.client("squeue", &["--noheader"]), "", "a job is left");
}

/// The process that submitted the array is killed before it has recorded the number of the array.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn an_array_is_found_by_its_name_after_a_kill_of_its_submitter() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    cluster.drain();
    let killed = sandbox.path("killed");
    let text = format!(
        "sbatch \"$@\" || exit\n[ -e {0} ] && exit\n: > {0}\n\
         read -r pid name state parent rest < /proc/$PPID/stat\nkill -9 \"$parent\"",
        killed.display()
    );
    let sbatch = SbatchScript::new(&sandbox, &text);
    let (_, tasks) = sbatch.start_matrix(&cluster, 3, "exit $MATRIX_N");
    eventually("the submitter is killed", || killed.exists());
    for (index, id) in tasks.iter().enumerate() {
        let queued = cluster.wait_until_queued(id);
        let job = queued["job_id"].as_str().expect("a number");
        assert!(job.ends_with(&format!("_{index}")), "{queued}");
    }
    cluster.undrain();
    for (code, id) in tasks.iter().enumerate() {
        assert_eq!(wait_for_outcome(&sandbox, id), json!({"kind": "exited", "code": code}), "{id}");
    }
    assert_eq!(sbatch.calls().len(), 1);
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_refused_array_is_submitted_job_by_job() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let text = "case \"$*\" in *--array=*)\n\
                echo 'sbatch: error: Batch job submission failed: Invalid job array specification' >&2\n\
                exit 1;; esac\nexec sbatch \"$@\"";
    let sbatch = SbatchScript::new(&sandbox, text);
    let (_, tasks) = sbatch.start_matrix(&cluster, 3, "exit $MATRIX_N");
    for (code, id) in tasks.iter().enumerate() {
        assert_eq!(wait_for_outcome(&sandbox, id), json!({"kind": "exited", "code": code}), "{id}");
    }
    assert_eq!(sbatch.calls().len(), 1 + tasks.len());
}

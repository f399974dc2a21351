//! The command lines of Slurm.
//!
//! All commands except srun have a time limit: while the controller does not answer or accepts no
//! further jobs, they retry for up to several minutes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use siding_model::executor::format_array_indexes;
use siding_model::id::TaskId;
use siding_model::lifecycle::JobLimitAnswer;
use siding_model::shell_words::quote_word;
use siding_model::slurm::{
    JobPhase, JobState, QUEUE_FORMAT, QueueEntry, TIME_FORMAT_VARIABLE, parse_job_limit_ms,
    scontrol_field,
};

use super::super::ssh;
use super::array_spool::ArraySpool;
use super::node::JOB_ARGUMENT;

/// Arguments of timeout(1): SIGTERM after 20 s, and SIGKILL 2 s later.
const TIME_LIMIT: [&str; 2] = ["--kill-after=2", "20"];

/// The same for a command for whose answer a person waits: SIGTERM after 5 s.
const SHORT_TIME_LIMIT: [&str; 2] = ["--kill-after=1", "5"];

/// The same for a command that precedes another one for the same answer: SIGTERM after 3 s.
const READ_TIME_LIMIT: [&str; 2] = ["--kill-after=1", "3"];

/// The exit codes of timeout(1) for a command that exceeded its time limit, and for a command that
/// it then had to kill.
const TIMEOUT_EXIT_CODES: [i32; 2] = [124, 137];

/// The exit code of timeout(1) for a command that it has not found.
const NOT_FOUND_EXIT_CODE: i32 = 127;

/// The unit of time limits.
const MINUTE_MS: u64 = 60_000;

/// A command of Slurm has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(super) struct SlurmError {
    /// The last message of the command, for a person.
    pub(super) why: String,
    /// Whether the controller did not answer. It may still have carried out the command.
    pub(super) is_ambiguous: bool,
}

impl SlurmError {
    /// Returns the reason for a command with a shorter time limit than others.
    fn into_short_reason(self) -> String {
        if self.is_ambiguous { "the controller has not answered".to_owned() } else { self.why }
    }
}

/// Returns a command of Slurm with a time limit.
pub(in super::super) fn slurm_command(program: &str) -> Command {
    limited_command(TIME_LIMIT, program)
}

fn limited_command(time_limit: [&str; 2], program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(time_limit).arg(program).stdin(Stdio::null());
    remove_job_variables(&mut command);
    command
}

/// Removes the variables of an enclosing job, which would become defaults for the options of a
/// command.
fn remove_job_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let is_of_job = ["SLURM_", "SBATCH_", "SRUN_", "SQUEUE_", "SCANCEL_", "SACCT_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if is_of_job && name != "SLURM_CONF" {
            command.env_remove(&*name);
        }
    }
}

/// Runs a command, and returns its standard output.
fn run(command: &mut Command) -> Result<String, SlurmError> {
    let output = command.output();
    let output =
        output.map_err(|error| SlurmError { why: error.to_string(), is_ambiguous: false })?;
    text_of(&output)
}

fn text_of(output: &Output) -> Result<String, SlurmError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = ssh::last_message(&output.stderr).unwrap_or_else(|| output.status.to_string());
    let has_no_answer = output.status.code().is_some_and(|code| TIMEOUT_EXIT_CODES.contains(&code));
    let is_ambiguous = has_no_answer || message.contains("timed out");
    let why = if has_no_answer {
        format!("no answer within 20 s ({message})")
    } else if output.status.code() == Some(NOT_FOUND_EXIT_CODE) {
        format!("{message}; a cluster needs the commands of Slurm in the PATH of this machine")
    } else {
        message
    };
    Err(SlurmError { why, is_ambiguous })
}

/// Returns the name of a task's job. The name identifies a job whose number is not recorded.
pub(super) fn job_name(id: TaskId) -> String {
    format!("siding-{id}")
}

/// Returns the name of the jobs of an array.
pub(super) fn array_job_name(array_name: &str) -> String {
    format!("siding-{array_name}")
}

/// Submits a job that executes `program` with the spool directory of a task as its argument.
/// Returns the number of the job.
pub(super) fn submit(
    id: TaskId,
    program: &Path,
    spool: &Path,
    options: &[String],
) -> Result<String, SlurmError> {
    let directory = quote_word(&spool.to_string_lossy());
    let output = spool.join(super::spool::BATCH_OUTPUT_FILE);
    run_sbatch(&job_name(id), &output, &batch_script(program, &directory), options)
}

/// Submits the elements of an array with one call of sbatch, whose batch script finds the spool
/// directory of its element by its index. Returns the number of the array.
pub(super) fn submit_array(
    name: &str,
    program: &Path,
    array: &ArraySpool,
    indexes: &[u32],
    options: &[String],
) -> Result<String, SlurmError> {
    let directory = quote_word(&array.path().to_string_lossy());
    let script = batch_script(program, &format!("{directory}/\"$SLURM_ARRAY_TASK_ID\""));
    let own_option = format!("--array={}", format_array_indexes(indexes));
    let options = [options, &[own_option]].concat();
    run_sbatch(&array_job_name(name), &array.batch_output(), &script, &options)
}

/// Returns a batch script that executes `program` for a spool directory, which is a word of sh(1).
fn batch_script(program: &Path, directory: &str) -> String {
    let program = quote_word(&program.to_string_lossy());
    format!("#!/bin/sh\nexec {program} {JOB_ARGUMENT} {directory}\n")
}

fn run_sbatch(
    name: &str,
    output: &Path,
    script: &str,
    options: &[String],
) -> Result<String, SlurmError> {
    let mut command = slurm_command("sbatch");
    // By default, Slurm requeues a job after a failure of its node, so the command would run twice.
    // `options` come last, so that a user can override `--no-requeue`.
    command.args(["--parsable", "--no-requeue", "--input=/dev/null", "--chdir=/"]);
    command.arg(format!("--job-name={name}"));
    command.arg(format!("--output={}", output.display()));
    command.args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error: std::io::Error| SlurmError {
        why: format!("could not start `sbatch` with `timeout`: {error}"),
        is_ambiguous: false,
    };
    let mut sbatch = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = sbatch.stdin.take() {
        // An sbatch that rejects its options may exit before it reads the script.
        let _not_read = stdin.write_all(script.as_bytes());
    }
    let text = text_of(&sbatch.wait_with_output().map_err(failed)?)?;
    // In a federation, the name of the cluster follows: `NUMBER;CLUSTER`.
    let job_id = text.lines().last().unwrap_or_default().split(';').next().unwrap_or_default();
    if job_id.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(job_id.to_owned());
    }
    let why = format!("sbatch did not print the number of the job, but `{}`", text.trim());
    Err(SlurmError { why, is_ambiguous: true })
}

/// Returns the jobs of this user, including ended ones that the controller has not forgotten.
pub(super) fn list_jobs() -> Result<Vec<QueueEntry>, SlurmError> {
    let mut command = slurm_command("squeue");
    command.args(["--me", "--noheader", "--all", "--states=all", "--array"]);
    command.args(["--format", QUEUE_FORMAT]).env(TIME_FORMAT_VARIABLE.0, TIME_FORMAT_VARIABLE.1);
    Ok(run(&mut command)?.lines().filter_map(QueueEntry::parse).collect())
}

/// Returns the final state of a job that the controller no longer lists, from the accounting
/// database. Returns `None` if the cluster has no database, or if the database does not report the
/// end: one that missed the end lists the job as running forever.
pub(super) fn accounted_end(job_id: &str) -> Option<JobState> {
    let mut command = slurm_command("sacct");
    command.args(["-X", "-n", "-P", "--format=State", "-j", job_id]);
    last_end(&run(&mut command).ok()?)
}

/// Returns the state in the last line of sacct if a job has ended in it. After a requeue, the
/// output contains a line for each attempt.
fn last_end(text: &str) -> Option<JobState> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).map(JobState::new);
    last.filter(|state| state.phase() == JobPhase::Ended)
}

/// Returns whether a waiting job has left the queue without a start: it was cancelled, or the
/// controller no longer lists it, as for an element of an array. Without an answer, the job counts
/// as waiting.
pub(super) fn was_cancelled_in_queue(job_id: &str) -> bool {
    show_job(TIME_LIMIT, job_id).output().is_ok_and(|output| shows_no_waiting_job(&output))
}

/// Returns the command that prints the fields of a job in one line.
fn show_job(time_limit: [&str; 2], job_id: &str) -> Command {
    let mut command = limited_command(time_limit, "scontrol");
    command.args(["show", "job", "--oneliner", job_id]);
    command
}

/// Returns whether the output of scontrol for a job that waited shows that it has left the queue.
fn shows_no_waiting_job(output: &Output) -> bool {
    match text_of(output) {
        Ok(line) => scontrol_field(&line, "JobState") == Some("CANCELLED"),
        // An unknown element of a known array is reported on the standard output.
        Err(error) => {
            let text = String::from_utf8_lossy(&output.stdout);
            error.why.contains("Invalid job id") || text.trim_end().ends_with(" not found")
        }
    }
}

/// Cancels a job. Also succeeds if the job has ended or is unknown.
pub(super) fn cancel(job_id: &str) -> Result<(), SlurmError> {
    let mut command = slurm_command("scancel");
    command.arg(job_id);
    run(&mut command).map(drop)
}

/// Raises the time limit of a job to this number of milliseconds, in whole minutes, unless it is
/// already as long. Slurm lets only its operators raise the limit of a running job, but every user
/// lower the limit of an own job. The limit is therefore read first: an operator may have raised it
/// beyond the limit that siding knows.
pub(super) fn raise_time_limit(job_id: &str, needed_ms: u64) -> JobLimitAnswer {
    let present_ms = match read_time_limit(job_id) {
        Ok(present_ms) => present_ms,
        Err(why) => return JobLimitAnswer { limit_ms: None, refusal: Some(why) },
    };
    if present_ms >= needed_ms {
        return JobLimitAnswer { limit_ms: Some(present_ms), refusal: None };
    }
    let set = format!("TimeLimit={}", needed_ms / MINUTE_MS);
    let mut command = limited_command(SHORT_TIME_LIMIT, "scontrol");
    match run(command.args(["update", &format!("JobId={job_id}"), &set])) {
        Ok(_) => JobLimitAnswer { limit_ms: Some(needed_ms), refusal: None },
        Err(error) => {
            JobLimitAnswer { limit_ms: Some(present_ms), refusal: Some(error.into_short_reason()) }
        }
    }
}

/// Returns the present time limit of a job in milliseconds, or the reason why it is unknown.
fn read_time_limit(job_id: &str) -> Result<u64, String> {
    let line =
        run(&mut show_job(READ_TIME_LIMIT, job_id)).map_err(SlurmError::into_short_reason)?;
    let text = scontrol_field(&line, "TimeLimit").unwrap_or_default();
    parse_job_limit_ms(text)
        .ok_or_else(|| format!("`scontrol show job` reports the time limit `{text}`"))
}

/// Returns the command that serves requests on the node of a running job, with pipes as its
/// standard streams. The command has no time limit, because it runs until its standard input is
/// closed.
pub(super) fn node_command(job_id: &str, program: &Path, state_dir: &Path) -> Command {
    let mut command = Command::new("srun");
    remove_job_variables(&mut command);
    command.arg(format!("--jobid={job_id}"));
    // The step shares the resources of the batch script. With `--unbuffered`, srun forwards each
    // response immediately.
    command.args(["--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--unbuffered", "--quiet"]);
    command.args(["--mpi=none", "--chdir=/", "--kill-on-bad-exit=0"]);
    command.arg(program).arg(ssh::SERVE_ARGUMENT).env("SIDING_STATE_DIR", state_dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output { status, stdout: stdout.as_bytes().to_vec(), stderr: stderr.as_bytes().to_vec() }
    }

    #[test]
    fn a_cancelled_job_or_element_has_left_the_queue() {
        let unknown = "slurm_load_jobs error: Invalid job id specified\n";
        assert!(shows_no_waiting_job(&output(1, "", unknown)));
        assert!(shows_no_waiting_job(&output(1, "Job 143_3 not found\n\n", "")));
        assert!(shows_no_waiting_job(&output(0, "JobId=7 JobState=CANCELLED Reason=None\n", "")));
        assert!(!shows_no_waiting_job(&output(0, "JobId=7 JobState=PENDING Reason=None\n", "")));
        let silent =
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n";
        assert!(
            !shows_no_waiting_job(&output(1, "", silent))
                && !shows_no_waiting_job(&output(124, "", ""))
        );
    }

    #[test]
    fn the_accounting_tells_the_end_of_the_last_attempt() {
        let end = |text| last_end(text).map(|state| state.as_str().to_owned());
        assert_eq!(end("PREEMPTED\nOUT_OF_MEMORY\n\n").as_deref(), Some("OUT_OF_MEMORY"));
        assert_eq!(end("CANCELLED by 1000\n").as_deref(), Some("CANCELLED"));
        assert_eq!(end("BOOT_FAIL\n").as_deref(), Some("BOOT_FAIL"));
        // The database has missed the end, or does not know the job.
        assert_eq!((end("NODE_FAIL\nRUNNING\n"), end("")), (None, None));
    }

    #[test]
    fn a_command_without_an_answer_may_have_been_carried_out() {
        let fails = |code: i32, message: &str| {
            text_of(&output(code, "", message)).expect_err("it failed").is_ambiguous
        };
        assert!(fails(124, "") && fails(137, "") && fails(1, "Socket timed out on send/recv"));
        assert!(!fails(1, "Invalid partition name specified"));
    }
}

//! Starts tasks whose command only sleeps.

use std::process::{Command, Stdio};

use anyhow::Result;
use siding_model::id::TaskId;
use siding_model::process::ProcRef;

use super::client::{BenchClient, argv_command};

/// The command of each task. It runs longer than any bench, but ends by itself, so that a task that
/// remains after a killed bench ends, too.
const SLEEP_COMMAND: [&str; 2] = ["sleep", "3600"];

/// Starts one task and closes the connection to its shim as soon as the command runs.
pub(super) fn start_idle_task(client: &BenchClient) -> Result<TaskId> {
    let task = client.start(argv_command(SLEEP_COMMAND))?;
    task.wait_until_running()?;
    Ok(task.id)
}

/// Starts `count` tasks one after the other, and returns their shims.
pub(super) fn start_idle_tasks(client: &BenchClient, count: usize) -> Result<Vec<ProcRef>> {
    (0..count).map(|_| start_idle_task(client).and_then(|id| client.shim_process(id))).collect()
}

/// Starts the same commands without siding and passes each pid to `on_pid`.
pub(super) fn start_plain_commands(count: usize, mut on_pid: impl FnMut(u32)) -> Result<()> {
    let [program, argument] = SLEEP_COMMAND;
    for _ in 0..count {
        let child = Command::new(program)
            .arg(argument)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        on_pid(child.id());
    }
    Ok(())
}

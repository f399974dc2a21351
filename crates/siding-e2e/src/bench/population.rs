//! Many tasks that do nothing.

use std::process::{Command, Stdio};

use anyhow::Result;
use siding_model::id::TaskId;
use siding_model::process::ProcRef;

use super::client::{Client, argv};

/// What each of them runs. Longer than any bench, shorter than for ever.
const SLEEP: [&str; 2] = ["sleep", "3600"];

/// Starts one more task, and lets go of it once it runs.
pub(super) fn add(client: &Client) -> Result<TaskId> {
    let task = client.start(argv(SLEEP))?;
    task.until_running()?;
    Ok(task.id)
}

/// Starts so many, and returns their shims.
pub(super) fn shims(client: &Client, count: usize) -> Result<Vec<ProcRef>> {
    (0..count).map(|_| add(client).and_then(|id| client.shim(id))).collect()
}

/// Starts the same commands without siding, and tells their numbers.
pub(super) fn plain(count: usize, mut tell: impl FnMut(u32)) -> Result<()> {
    let [program, argument] = SLEEP;
    for _ in 0..count {
        let child = Command::new(program)
            .arg(argument)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        tell(child.id());
    }
    Ok(())
}

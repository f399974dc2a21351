//! The time from the exit of a process until the process that waits for the exit detects it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::argv_command;
use crate::bench::helper_commands::STAMP_COMMAND;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds};
use crate::bench::syscalls::{self, SharedTimestamp};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "exit";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "last instruction of a process until the waiter knows its end",
    measure,
};

/// Lifetime of the process in milliseconds. The lifetime is long enough that every waiter sleeps
/// when the process exits.
const PROCESS_LIFETIME_MS: &str = "10";

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let client = place.client()?;
    let file = place.dir.join("stamp");
    let stamp = SharedTimestamp::open(&file)?;
    let own = bench.workspace.bench_program();
    let (own, file) = (own.to_string_lossy(), file.to_string_lossy());
    let since = |stamp: &SharedTimestamp| -> Result<Duration> {
        let now = syscalls::monotonic_now();
        let noted = stamp.get().context("the process stored no time")?;
        stamp.clear();
        Ok(now.saturating_sub(noted))
    };
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| {
            let task =
                client.start(argv_command([&own, STAMP_COMMAND, &file, PROCESS_LIFETIME_MS]))?;
            task.wait_until_closed()?;
            let took = since(&stamp)?;
            task.wait_for_shim_exit()?;
            client.ensure_success(task.id)?;
            Ok(took)
        }),
        Box::new(|| {
            let mut child = plain_command(&own, &file).spawn()?;
            child.wait()?;
            since(&stamp)
        }),
    ];
    let rounds = InterleavedRounds { warm_up: 5, counted: bench.mode.pick(150, 600) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    drop(turns);
    let parent = "the parent's waitpid";
    for (what, percent, most) in [("library: p50", 50.0, 0.5), ("library: p99", 99.0, 5.0)] {
        let [ours, theirs] = [&times[0], &times[1]].map(|times| times.percentile(percent));
        table.add(
            TableLine::new(ROW_NAME, what, Unit::Ms, ours)
                .with_reference(parent, theirs)
                .with_target(Target::AtMost(most)),
        );
    }
    place.wait_until_idle()
}

fn plain_command(own: &str, file: &str) -> Command {
    let mut command = Command::new(own);
    command
        .args([STAMP_COMMAND, file, PROCESS_LIFETIME_MS])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

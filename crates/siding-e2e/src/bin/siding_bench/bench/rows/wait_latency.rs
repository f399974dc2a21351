//! The time from an event in a task until the process that waits for the event detects it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use siding_core::task::wait::Waiter;
use siding_model::wait::{Condition, Quantifier, WaitVerdict};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::argv_command;
use crate::bench::helper_commands::{LINE_COMMAND, STAMP_COMMAND};
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds};
use crate::bench::syscalls::{self, SharedTimestamp};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "wait";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "a written line, or the end of a process, until a wait returns",
    measure,
};

/// Time until the process writes its line or exits, in milliseconds. The time is long enough that
/// the waiter sleeps when this happens.
const LINE_DELAY_MS: &str = "15";
/// Timeout of each wait, in milliseconds; only a broken wait reaches it.
const WAIT_TIMEOUT_MS: u64 = 10_000;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let client = place.client()?;
    let file = place.dir.join("stamp");
    let stamp = SharedTimestamp::open(&file)?;
    let own = bench.workspace.bench_program();
    let (own, file) = (own.to_string_lossy(), file.to_string_lossy());
    let wait = |role: &str, condition: Condition| -> Result<Duration> {
        let task = client.start(argv_command([&own, role, &file, LINE_DELAY_MS]))?;
        task.wait_until_running()?;
        let (root, program) = client.root_and_program();
        let waiter = Waiter::new(
            root,
            program,
            &[task.id],
            vec![condition],
            Quantifier::All,
            WAIT_TIMEOUT_MS,
        )?;
        let answer = waiter.run()?;
        let now = syscalls::monotonic_now();
        ensure!(answer.verdict == WaitVerdict::Satisfied, "the wait returned {answer:?}");
        let noted = stamp.get().context("the process stored no time")?;
        stamp.clear();
        task.wait_for_shim_exit()?;
        Ok(now.saturating_sub(noted))
    };
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| wait(LINE_COMMAND, Condition::Output("^ready$".to_owned()))),
        Box::new(|| wait(STAMP_COMMAND, Condition::Exit)),
    ];
    let rounds = InterleavedRounds { warm_up: 3, counted: bench.mode.pick(60, 300) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    drop(turns);
    for (what, times) in ["a line of output", "the end"].into_iter().zip(&times) {
        for (percentile, percent, most) in [("p50", 50.0, 0.5), ("p99", 99.0, 5.0)] {
            let line = TableLine::new(
                ROW_NAME,
                format!("{what}: {percentile}"),
                Unit::Ms,
                times.percentile(percent),
            );
            table.add(line.with_target(Target::AtMost(most)));
        }
    }
    place.wait_until_idle()
}

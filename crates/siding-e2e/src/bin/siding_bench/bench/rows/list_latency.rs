//! Measures the time of `siding ps` in a state directory with ten thousand ended tasks, compared
//! with the time to read their journals.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::recorded_tasks::{self, RecordedState};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "list";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "`siding ps` with 10,000 ended tasks in the state directory",
    measure,
};

const TASK_COUNT: usize = 10_000;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    recorded_tasks::write_tasks(&place, TASK_COUNT, RecordedState::Ended)?;
    let listed = place.siding_json(["ps", "--all", "--json"])?;
    let listed = listed.as_array().context("`siding ps --json` prints a list")?.len();
    ensure!(listed == TASK_COUNT, "`siding ps --all` lists {listed} of {TASK_COUNT} tasks");
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| time_command(&mut place.siding_command(["ps", "--json"]))),
        Box::new(|| {
            time_command(
                Command::new("find")
                    .args(["tasks", "-name", "journal", "-exec", "cat", "{}", "+"])
                    .current_dir(&place.state)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null()),
            )
        }),
    ];
    let rounds = InterleavedRounds { warm_up: 1, counted: bench.mode.pick(5, 21) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    table.add(
        TableLine::new(ROW_NAME, "`siding ps --json`", Unit::Ms, times[0].median())
            .with_reference("`find -exec cat` of the same 10,000 journals", times[1].median())
            .with_target(Target::AtMost(100.0)),
    );
    Ok(())
}

//! Checks that the cost of a task does not depend on whether one, ten, a hundred or a thousand
//! other tasks run.

use anyhow::Result;

use super::Row;
use super::start_latency::bash_true;
use crate::bench::Bench;
use crate::bench::client::{BenchClient, shell_command};
use crate::bench::idle_tasks;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "scale";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "`true` next to 1, 10, 100 and 1,000 tasks", measure };

const TASK_LEVELS: [usize; 4] = [1, 10, 100, 1000];
/// Maximum ratio between the most expensive and the cheapest level at which the cost still counts
/// as constant. Each level is measured relative to `bash -c true` at the same time, because a
/// thousand additional processes slow every program of the machine.
const MAX_FLAT_RATIO: f64 = 1.3;

/// The medians at one number of running tasks, in milliseconds.
#[derive(Debug)]
struct LevelResult {
    tasks: usize,
    library_ms: f64,
    bash_ms: f64,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    // The row uses a tmpfs if there is one. Some file systems become slower with each file that is
    // created and removed, so the levels could not be compared there.
    let place = match bench.workspace.row_dir_in_tmpfs(ROW_NAME)? {
        Some(place) => {
            table.add_note(ROW_NAME, "state in tmpfs");
            place
        }
        None => bench.workspace.row_dir(ROW_NAME)?,
    };
    let client = place.client()?;
    let mut levels = vec![];
    let mut started_tasks = 0;
    for tasks in TASK_LEVELS {
        for _ in started_tasks..tasks {
            idle_tasks::start_idle_task(&client)?;
        }
        started_tasks = tasks;
        levels.push(measure_level(bench, &client, tasks)?);
    }
    for level in &levels {
        let what = format!("library: `true` next to {}", level.tasks);
        table.add(
            TableLine::new(ROW_NAME, what, Unit::Ms, level.library_ms)
                .with_reference("`bash -c true` at that moment", level.bash_ms),
        );
    }
    compare_levels(&levels, table);
    place.stop_all()
}

fn measure_level(bench: &Bench, client: &BenchClient, tasks: usize) -> Result<LevelResult> {
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| Ok(client.run(shell_command("true"))?.until_end_known)),
        Box::new(|| time_command(&mut bash_true())),
    ];
    let rounds = InterleavedRounds { warm_up: 5, counted: bench.mode.pick(40, 200) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    Ok(LevelResult { tasks, library_ms: times[0].median(), bash_ms: times[1].median() })
}

fn compare_levels(levels: &[LevelResult], table: &mut ResultTable) {
    let per_bash = |level: &LevelResult| level.library_ms / level.bash_ms;
    let dearest = levels.iter().map(per_bash).fold(0.0, f64::max);
    let cheapest = levels.iter().map(per_bash).fold(f64::INFINITY, f64::min);
    table.add(
        TableLine::new(ROW_NAME, "`true`, most expensive level", Unit::Times, dearest)
            .with_reference("the cheapest level, both as ratios to bash", cheapest)
            .with_target(Target::RatioAtMost(MAX_FLAT_RATIO)),
    );
}

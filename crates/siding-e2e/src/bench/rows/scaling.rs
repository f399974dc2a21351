//! Checks that the cost of a task does not depend on whether one, ten, a hundred or a thousand
//! other tasks run.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use super::start_latency::bash_true;
use crate::bench::Bench;
use crate::bench::client::{BenchClient, shell_command};
use crate::bench::idle_tasks;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "scale";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "start, stop and list beside 1, 10, 100 and 1,000 tasks",
    measure,
};

const TASK_LEVELS: [usize; 4] = [1, 10, 100, 1000];
/// Highest ratio between the most expensive level and the cheapest level that still counts as
/// constant. Each level is measured relative to `bash -c true` at the same time, because a thousand
/// additional processes slow the machine for every program.
const MAX_FLAT_RATIO: f64 = 1.3;

/// The medians at one number of running tasks, in milliseconds.
#[derive(Debug)]
struct LevelResult {
    tasks: usize,
    library_ms: f64,
    bash_ms: f64,
    stop_ms: f64,
    list_ms: f64,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    // The row uses tmpfs if possible. On some file systems, creating a file takes longer after many
    // files were created and removed, and this would distort the comparison of the levels.
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
    let mut last_level_starts = Samples::default();
    for tasks in TASK_LEVELS {
        last_level_starts = Samples::default();
        for _ in started_tasks..tasks {
            let started = Instant::now();
            idle_tasks::start_idle_task(&client)?;
            last_level_starts.push_time(started.elapsed());
        }
        started_tasks = tasks;
        levels.push(measure_level(bench, &place, &client, tasks)?);
    }
    for level in &levels {
        let what = format!("library: `true` beside {}", level.tasks);
        table.add(
            TableLine::new(ROW_NAME, what, Unit::Ms, level.library_ms)
                .with_reference("`bash -c true` at that moment", level.bash_ms),
        );
    }
    compare_levels(&levels, table);
    table.add(TableLine::new(
        ROW_NAME,
        "library: start, 101st to 1,000th",
        Unit::Ms,
        last_level_starts.median(),
    ));
    for level in &levels {
        let what = format!("`siding stop ID` beside {}", level.tasks);
        table.add(TableLine::new(ROW_NAME, what, Unit::Ms, level.stop_ms));
    }
    for level in &levels {
        let what = format!("`siding ps --running` of {}", level.tasks);
        table.add(TableLine::new(ROW_NAME, what, Unit::Ms, level.list_ms));
    }
    let started = Instant::now();
    place.stop_all()?;
    let each = started.elapsed().as_secs_f64() * 1e3 / started_tasks as f64;
    table.add(TableLine::new(ROW_NAME, "`siding stop --all` of 1,000, each", Unit::Ms, each));
    Ok(())
}

fn measure_level(
    bench: &Bench,
    place: &RowDir,
    client: &BenchClient,
    tasks: usize,
) -> Result<LevelResult> {
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| Ok(client.run(shell_command("true"))?.until_end_known)),
        Box::new(|| time_command(&mut bash_true())),
    ];
    let rounds = InterleavedRounds { warm_up: 5, counted: bench.mode.pick(40, 200) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    drop(turns);
    let mut others: [Contender<'_>; 2] =
        [Box::new(|| time_stop(place, client, tasks)), Box::new(|| time_list(place, tasks))];
    let rounds = InterleavedRounds { warm_up: 1, counted: bench.mode.pick(3, 9) };
    let slow = interleaved_runs::run_rounds(rounds, &mut others)?;
    Ok(LevelResult {
        tasks,
        library_ms: times[0].median(),
        bash_ms: times[1].median(),
        stop_ms: slow[0].median(),
        list_ms: slow[1].median(),
    })
}

/// Starts a task, stops it and returns the duration of the stop.
fn time_stop(place: &RowDir, client: &BenchClient, tasks: usize) -> Result<Duration> {
    let id = idle_tasks::start_idle_task(client)?.to_string();
    let took = time_command(&mut place.siding_command(["stop", &id]))?;
    let until = Instant::now() + Duration::from_secs(10);
    while client.live_count()? > tasks {
        ensure!(Instant::now() < until, "task {id} is marked live after its stop");
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(took)
}

fn time_list(place: &RowDir, tasks: usize) -> Result<Duration> {
    let started = Instant::now();
    let listed = place.siding_json(["ps", "--running", "--json"])?;
    let took = started.elapsed();
    let live = listed.as_array().context("`siding ps --json` prints a list")?.len();
    ensure!(live == tasks, "`siding ps` lists {live} of {tasks}");
    Ok(took)
}

fn compare_levels(levels: &[LevelResult], table: &mut ResultTable) {
    let per_bash = |level: &LevelResult| level.library_ms / level.bash_ms;
    let dearest = levels.iter().map(per_bash).fold(0.0, f64::max);
    let cheapest = levels.iter().map(per_bash).fold(f64::INFINITY, f64::min);
    table.add(
        TableLine::new(ROW_NAME, "`true`, dearest level", Unit::Times, dearest)
            .with_reference("the cheapest level, both as ratios to bash", cheapest)
            .with_target(Target::RatioAtMost(MAX_FLAT_RATIO)),
    );
}

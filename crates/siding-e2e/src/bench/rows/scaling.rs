//! Whether a task costs the same beside one, ten, a hundred and a thousand others.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use super::starting::bash;
use crate::bench::Bench;
use crate::bench::client::{Client, shell};
use crate::bench::population;
use crate::bench::samples::Samples;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "scale";

pub(super) const ROW: Row =
    Row { name: NAME, about: "start, stop and list beside 1, 10, 100 and 1,000 tasks", measure };

const LEVELS: [usize; 4] = [1, 10, 100, 1000];
/// A cost counts as flat when the dearest level is at most so many times the cheapest, as measured
/// by `bash -c true` at the same moment: a thousand more processes slow the machine for everybody.
const FLAT: f64 = 1.3;

/// What was measured at one level, in milliseconds.
#[derive(Debug)]
struct Level {
    tasks: usize,
    ours: f64,
    bash: f64,
    stop: f64,
    list: f64,
}

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    // In memory where that can be: a file system that slows down with the files made and removed
    // so far would make the first level dear.
    let place = match bench.stage.place_in_memory(NAME)? {
        Some(place) => {
            table.note(NAME, "state in tmpfs");
            place
        }
        None => bench.stage.place(NAME)?,
    };
    let client = place.client()?;
    let mut levels = vec![];
    let mut lives = 0;
    let mut last_stretch = Samples::default();
    for tasks in LEVELS {
        last_stretch = Samples::default();
        for _ in lives..tasks {
            let started = Instant::now();
            population::add(&client)?;
            last_stretch.push_time(started.elapsed());
        }
        lives = tasks;
        levels.push(level(bench, &place, &client, tasks)?);
    }
    for level in &levels {
        let what = format!("library: `true` beside {}", level.tasks);
        table.add(
            Line::new(NAME, what, Unit::Ms, level.ours)
                .against("`bash -c true` at that moment", level.bash),
        );
    }
    flat(&levels, table);
    table.add(Line::new(NAME, "library: start, 101st to 1,000th", Unit::Ms, last_stretch.median()));
    for level in &levels {
        let what = format!("`siding stop ID` beside {}", level.tasks);
        table.add(Line::new(NAME, what, Unit::Ms, level.stop));
    }
    for level in &levels {
        let what = format!("`siding ps --running` of {}", level.tasks);
        table.add(Line::new(NAME, what, Unit::Ms, level.list));
    }
    let started = Instant::now();
    place.stop_all()?;
    let each = started.elapsed().as_secs_f64() * 1e3 / lives as f64;
    table.add(Line::new(NAME, "`siding stop --all` of 1,000, each", Unit::Ms, each));
    Ok(())
}

fn level(bench: &Bench, place: &Place, client: &Client, tasks: usize) -> Result<Level> {
    let mut turns: [Turn<'_>; 2] =
        [Box::new(|| Ok(client.run(shell("true"))?.known)), Box::new(|| timed(&mut bash()))];
    let rounds = Rounds { warm_up: 5, counted: bench.pace.of(40, 200) };
    let times = turns::take(rounds, &mut turns)?;
    drop(turns);
    let mut others: [Turn<'_>; 2] =
        [Box::new(|| stop(place, client, tasks)), Box::new(|| list(place, tasks))];
    let rounds = Rounds { warm_up: 1, counted: bench.pace.of(3, 9) };
    let slow = turns::take(rounds, &mut others)?;
    Ok(Level {
        tasks,
        ours: times[0].median(),
        bash: times[1].median(),
        stop: slow[0].median(),
        list: slow[1].median(),
    })
}

/// Stops one task that was started for it.
fn stop(place: &Place, client: &Client, tasks: usize) -> Result<Duration> {
    let id = population::add(client)?.to_string();
    let took = timed(&mut place.siding(["stop", &id]))?;
    let until = Instant::now() + Duration::from_secs(10);
    while client.live()? > tasks {
        ensure!(Instant::now() < until, "task {id} is marked live after its stop");
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(took)
}

fn list(place: &Place, tasks: usize) -> Result<Duration> {
    let started = Instant::now();
    let listed = place.siding_json(["ps", "--running", "--json"])?;
    let took = started.elapsed();
    let live = listed.as_array().context("`siding ps --json` prints a list")?.len();
    ensure!(live == tasks, "`siding ps` lists {live} of {tasks}");
    Ok(took)
}

fn flat(levels: &[Level], table: &mut Table) {
    let per_bash = |level: &Level| level.ours / level.bash;
    let dearest = levels.iter().map(per_bash).fold(0.0, f64::max);
    let cheapest = levels.iter().map(per_bash).fold(f64::INFINITY, f64::min);
    table.add(
        Line::new(NAME, "`true`, dearest level", Unit::Times, dearest)
            .against("the cheapest level, both as ratios to bash", cheapest)
            .target(Target::RatioAtMost(FLAT)),
    );
}

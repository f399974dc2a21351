//! Listing ten thousand tasks that have ended.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::recorded::{self, Past};
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "list";

pub(super) const ROW: Row =
    Row { name: NAME, about: "`siding ps` with 10,000 ended tasks on record", measure };

const TASKS: usize = 10_000;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    recorded::tasks(&place, TASKS, Past::Ended)?;
    let listed = place.siding_json(["ps", "--all", "--json"])?;
    let listed = listed.as_array().context("`siding ps --json` prints a list")?.len();
    ensure!(listed == TASKS, "`siding ps --all` lists {listed} of {TASKS} tasks");
    let mut turns: [Turn<'_>; 3] = [
        Box::new(|| timed(&mut place.siding(["ps", "--json"]))),
        Box::new(|| timed(&mut place.siding(["ps", "--all", "--json"]))),
        Box::new(|| {
            timed(
                Command::new("find")
                    .args(["tasks", "-name", "journal", "-exec", "cat", "{}", "+"])
                    .current_dir(&place.state)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null()),
            )
        }),
    ];
    let rounds = Rounds { warm_up: 1, counted: bench.pace.of(5, 21) };
    let times = turns::take(rounds, &mut turns)?;
    for (what, times_of) in
        [("`siding ps --json`", &times[0]), ("`siding ps --all --json`", &times[1])]
    {
        table.add(
            Line::new(NAME, what, Unit::Ms, times_of.median())
                .against("`find -exec cat` of the same 10,000 journals", times[2].median())
                .target(Target::AtMost(100.0)),
        );
    }
    Ok(())
}

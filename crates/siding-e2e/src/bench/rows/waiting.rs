//! How soon whoever waits for something a task does knows of it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use siding_core::wait::Waiter;
use siding_model::wait::{Condition, Quantifier, WaitVerdict};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::argv;
use crate::bench::kernel::{self, Stamp};
use crate::bench::roles::{LINE, STAMP};
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn};

const NAME: &str = "wait";

pub(super) const ROW: Row = Row {
    name: NAME,
    about: "a line is written, or a process ends, until a wait is over",
    measure,
};

/// Time until the process writes its line, in milliseconds: the waiter sleeps then.
const BEFORE_MS: &str = "15";
/// Longest wait, in milliseconds.
const BOUND_MS: u64 = 10_000;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let client = place.client()?;
    let file = place.dir.join("stamp");
    let stamp = Stamp::open(&file)?;
    let own = bench.stage.own();
    let (own, file) = (own.to_string_lossy(), file.to_string_lossy());
    let wait = |role: &str, condition: Condition| -> Result<Duration> {
        let task = client.start(argv([&own, role, &file, BEFORE_MS]))?;
        task.until_running()?;
        let (root, program) = client.reach();
        let waiter =
            Waiter::new(root, program, &[task.id], vec![condition], Quantifier::All, BOUND_MS)?;
        let answer = waiter.run()?;
        let now = kernel::now();
        ensure!(answer.verdict == WaitVerdict::Satisfied, "the wait gave {answer:?}");
        let noted = stamp.get().context("the process noted no time")?;
        stamp.clear();
        task.until_left()?;
        Ok(now.saturating_sub(noted))
    };
    let mut turns: [Turn<'_>; 2] = [
        Box::new(|| wait(LINE, Condition::Output("^ready$".to_owned()))),
        Box::new(|| wait(STAMP, Condition::Exit)),
    ];
    let rounds = Rounds { warm_up: 3, counted: bench.pace.of(60, 300) };
    let times = turns::take(rounds, &mut turns)?;
    drop(turns);
    for (what, times) in ["a line of output", "the end"].into_iter().zip(&times) {
        for (percentile, percent, most) in [("p50", 50.0, 0.5), ("p99", 99.0, 5.0)] {
            let line = Line::new(
                NAME,
                format!("{what}: {percentile}"),
                Unit::Ms,
                times.percentile(percent),
            );
            table.add(line.target(Target::AtMost(most)));
        }
    }
    place.until_quiet()
}

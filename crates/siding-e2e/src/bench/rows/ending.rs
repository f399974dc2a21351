//! How soon whoever waits knows of an end.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::argv;
use crate::bench::kernel::{self, Stamp};
use crate::bench::roles::STAMP;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn};

const NAME: &str = "told";

pub(super) const ROW: Row =
    Row { name: NAME, about: "last instruction of a process until whoever waits knows", measure };

/// Time the process lives, in milliseconds: everybody sleeps when it ends.
const LIVES_MS: &str = "10";
/// The same where a program that waits must be started meanwhile.
const LIVES_LONGER_MS: &str = "60";

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let client = place.client()?;
    let file = place.dir.join("stamp");
    let stamp = Stamp::open(&file)?;
    let own = bench.stage.own();
    let (own, file) = (own.to_string_lossy(), file.to_string_lossy());
    let since = |stamp: &Stamp| -> Result<Duration> {
        let now = kernel::now();
        let noted = stamp.get().context("the process noted no time")?;
        stamp.clear();
        Ok(now.saturating_sub(noted))
    };
    let mut turns: [Turn<'_>; 2] = [
        Box::new(|| {
            let task = client.start(argv([&own, STAMP, &file, LIVES_MS]))?;
            task.until_closed()?;
            let took = since(&stamp)?;
            task.until_left()?;
            client.succeeded(task.id)?;
            Ok(took)
        }),
        Box::new(|| {
            let mut child = plain(&own, &file).spawn()?;
            child.wait()?;
            since(&stamp)
        }),
    ];
    let rounds = Rounds { warm_up: 5, counted: bench.pace.of(150, 600) };
    let times = turns::take(rounds, &mut turns)?;
    drop(turns);
    let parent = "the parent's waitpid";
    for (what, percent, most) in [("library: p50", 50.0, 0.5), ("library: p99", 99.0, 5.0)] {
        let [ours, theirs] = [&times[0], &times[1]].map(|times| times.percentile(percent));
        table.add(
            Line::new(NAME, what, Unit::Ms, ours)
                .against(parent, theirs)
                .target(Target::AtMost(most)),
        );
    }
    let mut waits: [Turn<'_>; 1] = [Box::new(|| {
        let task = client.start(argv([&own, STAMP, &file, LIVES_LONGER_MS]))?;
        task.until_running()?;
        turns::timed(&mut place.siding(["wait", &task.id.to_string()]))?;
        let took = since(&stamp)?;
        task.until_left()?;
        Ok(took)
    })];
    let rounds = Rounds { warm_up: 2, counted: bench.pace.of(20, 100) };
    let times = turns::take(rounds, &mut waits)?;
    for (what, percent) in
        [("`siding wait` has ended: p50", 50.0), ("`siding wait` has ended: p99", 99.0)]
    {
        table.add(Line::new(NAME, what, Unit::Ms, times[0].percentile(percent)));
    }
    drop(waits);
    place.until_quiet()
}

fn plain(own: &str, file: &str) -> Command {
    let mut command = Command::new(own);
    command.args([STAMP, file, LIVES_MS]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

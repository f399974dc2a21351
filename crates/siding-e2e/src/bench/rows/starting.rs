//! What a command that does nothing costs, from its start until its end is known.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::Row;
use crate::bench::Bench;
use crate::bench::client::{argv, shell};
use crate::bench::samples::Samples;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "true";

pub(super) const ROW: Row = Row {
    name: NAME,
    about: "start of `true` until its end is known, as a library and as a program",
    measure,
};

/// Returns `bash -c true` as anybody would start it.
pub(super) fn bash() -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", "true"]);
    quiet(command)
}

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    library(bench, table)?;
    program(bench, table)
}

fn library(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place("true-library")?;
    let client = place.client()?;
    let in_memory = bench.stage.place_in_memory(NAME)?.map(|place| place.client()).transpose()?;
    let mut left = Samples::default();
    let shell_text: Turn<'_> = Box::new(|| {
        let ran = client.run(shell("true"))?;
        left.push_time(ran.left);
        Ok(ran.known)
    });
    let mut turns: Vec<Turn<'_>> = vec![
        shell_text,
        Box::new(|| timed(&mut bash())),
        Box::new(|| Ok(client.run(argv(["true"]))?.known)),
        Box::new(|| timed(&mut quiet(Command::new("true")))),
    ];
    if let Some(client) = &in_memory {
        turns.push(Box::new(|| Ok(client.run(shell("true"))?.known)));
    }
    let rounds = Rounds { warm_up: 10, counted: bench.pace.of(200, 1000) };
    let times = turns::take(rounds, &mut turns)?;
    drop(turns);
    let line = |what: &str, name: &str, ours: f64, theirs: f64| {
        Line::new(NAME, what, Unit::Ms, ours).against(name, theirs)
    };
    let bash = "`bash -c true`, spawned and waited for by the same process";
    table.add(
        line("library: bash text, median", bash, times[0].median(), times[1].median())
            .target(Target::RatioAtMost(1.5)),
    );
    let (ours, theirs) = (times[0].percentile(90.0), times[1].percentile(90.0));
    table.add(line("library: bash text, p90", bash, ours, theirs));
    if let Some(ours) = times.get(4) {
        let what = "library: bash text, state in tmpfs";
        table.add(line(what, bash, ours.median(), times[1].median()));
    }
    let alone = "`true`, spawned and waited for by the same process";
    table.add(line("library: program, median", alone, times[2].median(), times[3].median()));
    table.add(Line::new(NAME, "library: until the shim has left", Unit::Ms, left.median()));
    place.until_quiet()
}

fn program(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place("true-program")?;
    let spooler = Spooler::find(&place.dir);
    let mut turns: Vec<Turn<'_>> = vec![
        Box::new(|| {
            let took = timed(&mut place.siding(["run", "true"]))?;
            place.until_quiet()?;
            Ok(took)
        }),
        Box::new(|| timed(&mut bash())),
        Box::new(|| {
            let mut nohup = Command::new("nohup");
            nohup.args(["bash", "-c", "true"]);
            timed(&mut quiet(nohup))
        }),
    ];
    if let Some(spooler) = &spooler {
        turns.push(Box::new(|| timed(&mut spooler.command(["-fn", "true"]))));
    }
    let rounds = Rounds { warm_up: 10, counted: bench.pace.of(100, 500) };
    let times = turns::take(rounds, &mut turns)?;
    let line = |what: &str, name: &str, theirs: f64| {
        Line::new(NAME, what, Unit::Ms, times[0].median()).against(name, theirs)
    };
    table.add(
        line("`siding run true`, median", "`bash -c true`", times[1].median())
            .target(Target::RatioAtMost(2.5)),
    );
    table.add(line("`siding run true`, median", "`nohup bash -c true`", times[2].median()));
    match times.get(3) {
        Some(theirs) => table.add(
            line("`siding run true`, median", "`tsp -fn true` (task-spooler)", theirs.median())
                .target(Target::RatioAtMost(1.0)),
        ),
        None => table.note(NAME, "task-spooler (`tsp`) is not installed"),
    }
    Ok(())
}

/// A server of task-spooler with a socket of its own. Ended when dropped.
#[derive(Debug)]
struct Spooler {
    socket: PathBuf,
}

impl Spooler {
    /// Starts a server, `None` when the program is not installed.
    fn find(dir: &Path) -> Option<Self> {
        let spooler = Self { socket: dir.join("tsp") };
        // The first call starts the server, which stays.
        timed(&mut spooler.command(["-fn", "true"])).ok()?;
        Some(spooler)
    }

    fn command<const N: usize>(&self, words: [&str; N]) -> Command {
        let mut command = Command::new("tsp");
        command.args(words).env("TS_SOCKET", &self.socket).env("TS_MAXFINISHED", "10");
        quiet(command)
    }
}

impl Drop for Spooler {
    fn drop(&mut self) {
        // Whoever clears the stage finds one that does not obey.
        let _found_later = self.command(["-K"]).status();
    }
}

//! What tasks cost while nothing happens in them.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use siding_model::process::ProcRef;

use super::Row;
use crate::bench::memory::{self, Private, Used};
use crate::bench::population;
use crate::bench::samples::Samples;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::{Bench, Pace};

const NAME: &str = "idle";

pub(super) const ROW: Row =
    Row { name: NAME, about: "memory and processor that 1,000 idle tasks take", measure };

const TASKS: usize = 1000;
/// Shells to compare with.
const SHELLS: usize = 20;
/// What a shim does about its start is over long before: it lets go of everything it needs for a
/// flow of output with its first look at a silence, after two seconds.
const SETTLE: Duration = Duration::from_secs(3);

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let mut client = place.client()?;
    client.is_background = true;
    let shims = population::shims(&client, TASKS)?;
    let shells = Shells::start(SHELLS)?;
    std::thread::sleep(SETTLE);
    memory_of(&shims, &shells, table)?;
    drop(shells);
    processor(&shims, bench.pace, table)?;
    place.stop_all()
}

fn memory_of(shims: &[ProcRef], shells: &Shells, table: &mut Table) -> Result<()> {
    let of = |pids: &mut dyn Iterator<Item = i32>| -> Result<Vec<Private>> {
        let found = pids.map(memory::private).collect::<Option<Vec<_>>>();
        found.context("a process that should be idle has gone")
    };
    let ours = of(&mut shims.iter().map(|shim| shim.pid))?;
    let theirs = of(&mut shells.pids())?;
    let median = |found: &[Private], part: fn(&Private) -> f64| -> f64 {
        found.iter().map(part).collect::<Samples>().median()
    };
    let whole = |found: &Private| found.anonymous + found.of_files;
    table.add(
        Line::new(NAME, "private memory of a shim", Unit::KiB, median(&ours, whole))
            .against(
                "the shell of `nohup bash -c 'COMMAND; echo $? > rc' &`",
                median(&theirs, whole),
            )
            .target(Target::AtMost(128.0)),
    );
    let anonymous = |found: &Private| found.anonymous;
    let of_files = |found: &Private| found.of_files;
    table.add(
        Line::new(NAME, "  of that, of no file", Unit::KiB, median(&ours, anonymous))
            .against("the same", median(&theirs, anonymous)),
    );
    table.add(
        Line::new(NAME, "  of that, of files", Unit::KiB, median(&ours, of_files))
            .against("the same", median(&theirs, of_files)),
    );
    Ok(())
}

fn processor(shims: &[ProcRef], pace: Pace, table: &mut Table) -> Result<()> {
    let sum = || -> Result<Used> {
        shims.iter().try_fold(Used::default(), |sum, shim| {
            let used = memory::used(shim.pid).context("an idle task's shim has gone")?;
            Ok(Used { cpu_ns: sum.cpu_ns + used.cpu_ns, switches: sum.switches + used.switches })
        })
    };
    let (started, before) = (Instant::now(), sum()?);
    std::thread::sleep(Duration::from_secs(pace.of(4, 10) as u64));
    let (after, took) = (sum()?, started.elapsed());
    let percent = (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64 * 100.0;
    let switches = (after.switches - before.switches) as f64 / took.as_secs_f64();
    table.add(
        Line::new(NAME, "1,000 shims: of one core", Unit::Percent, percent)
            .target(Target::AtMost(1.0)),
    );
    table.add(Line::new(NAME, "1,000 shims: switches a second", Unit::Count, switches));
    Ok(())
}

/// Shells that wait for a command as a person would have them do it. Ended when dropped.
#[derive(Debug)]
struct Shells(Vec<Child>);

impl Shells {
    fn start(count: usize) -> Result<Self> {
        let mut shells = Self(vec![]);
        for _ in 0..count {
            shells.0.push(
                Command::new("bash")
                    .args(["-c", "sleep 3600; echo $? > /dev/null"])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .process_group(0)
                    .spawn()?,
            );
        }
        Ok(shells)
    }

    fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.iter().filter_map(|child| i32::try_from(child.id()).ok())
    }
}

impl Drop for Shells {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(group) = group {
                let kill = rustix::process::Signal::KILL;
                let _already_gone = rustix::process::kill_process_group(group, kill);
            }
            let _reaped = child.wait();
        }
    }
}

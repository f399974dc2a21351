//! The memory and the processor time of idle tasks.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use siding_model::process::ProcRef;

use super::Row;
use crate::bench::idle_tasks;
use crate::bench::process_usage::{self, CpuUsage, PrivateMemory};
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::{Bench, BenchMode};

const ROW_NAME: &str = "idle";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "memory and processor time of 1,000 idle tasks", measure };

const TASK_COUNT: usize = 1000;
/// Number of plain shells whose memory is compared with the memory of the shims.
const SHELL_COUNT: usize = 20;
/// Time after which a shim is idle. A shim frees its output buffers at its first check of a silent
/// task, two seconds after the last output.
const SETTLE_TIME: Duration = Duration::from_secs(3);

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let mut client = place.client()?;
    client.is_background = true;
    let shims = idle_tasks::start_idle_tasks(&client, TASK_COUNT)?;
    let shells = ComparisonShells::start(SHELL_COUNT)?;
    std::thread::sleep(SETTLE_TIME);
    measure_memory(&shims, &shells, table)?;
    drop(shells);
    measure_cpu(&shims, bench.mode, table)?;
    place.stop_all()
}

fn measure_memory(
    shims: &[ProcRef],
    shells: &ComparisonShells,
    table: &mut ResultTable,
) -> Result<()> {
    let of = |pids: &mut dyn Iterator<Item = i32>| -> Result<Vec<PrivateMemory>> {
        let found = pids.map(process_usage::private_memory).collect::<Option<Vec<_>>>();
        found.context("an idle process has exited")
    };
    let ours = of(&mut shims.iter().map(|shim| shim.pid))?;
    let theirs = of(&mut shells.pids())?;
    let median = |found: &[PrivateMemory], part: fn(&PrivateMemory) -> f64| -> f64 {
        found.iter().map(part).collect::<Samples>().median()
    };
    let whole = |found: &PrivateMemory| found.anonymous + found.file_backed;
    table.add(
        TableLine::new(ROW_NAME, "private memory of a shim", Unit::KiB, median(&ours, whole))
            .with_reference(
                "the shell of `nohup bash -c 'COMMAND; echo $? > rc' &`",
                median(&theirs, whole),
            )
            .with_target(Target::AtMost(128.0)),
    );
    let anonymous = |found: &PrivateMemory| found.anonymous;
    let of_files = |found: &PrivateMemory| found.file_backed;
    table.add(
        TableLine::new(ROW_NAME, "  of that, anonymous", Unit::KiB, median(&ours, anonymous))
            .with_reference("the same", median(&theirs, anonymous)),
    );
    table.add(
        TableLine::new(ROW_NAME, "  of that, file-backed", Unit::KiB, median(&ours, of_files))
            .with_reference("the same", median(&theirs, of_files)),
    );
    Ok(())
}

fn measure_cpu(shims: &[ProcRef], pace: BenchMode, table: &mut ResultTable) -> Result<()> {
    let sum = || -> Result<CpuUsage> {
        shims.iter().try_fold(CpuUsage::default(), |sum, shim| {
            let used = process_usage::cpu_usage(shim.pid)
                .context("the shim of an idle task has exited")?;
            Ok(CpuUsage {
                cpu_ns: sum.cpu_ns + used.cpu_ns,
                switches: sum.switches + used.switches,
            })
        })
    };
    let (started, before) = (Instant::now(), sum()?);
    std::thread::sleep(Duration::from_secs(pace.pick(4, 10) as u64));
    let (after, took) = (sum()?, started.elapsed());
    let percent = (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64 * 100.0;
    let switches = (after.switches - before.switches) as f64 / took.as_secs_f64();
    table.add(
        TableLine::new(ROW_NAME, "1,000 shims: of one core", Unit::Percent, percent)
            .with_target(Target::AtMost(1.0)),
    );
    table.add(TableLine::new(ROW_NAME, "1,000 shims: switches a second", Unit::Count, switches));
    Ok(())
}

/// Shells that wait for a command, started as a person would start them. Dropping this value ends
/// the shells.
#[derive(Debug)]
struct ComparisonShells(Vec<Child>);

impl ComparisonShells {
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

impl Drop for ComparisonShells {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(group) = group {
                let kill = rustix::process::Signal::KILL;
                let _already_ended = rustix::process::kill_process_group(group, kill);
            }
            let _already_ended = child.wait();
        }
    }
}

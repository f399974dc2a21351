//! The cost of a task on a machine behind ssh, next to plain ssh with the same options.

use std::cell::Cell;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::engine;
use crate::bench::executor_client::ExecutorClient;
use crate::bench::helper_commands::WRITE_COMMAND;
use crate::bench::interleaved_runs::{
    self, Contender, InterleavedRounds, time_concurrent_calls, with_progress,
};
use crate::bench::samples::Samples;
use crate::bench::ssh_machine::{self, SshMachine};
use crate::bench::system_info;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "ssh";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "tasks on a machine behind ssh, next to plain ssh over a shared connection",
    measure,
};

/// Maximum time until the first byte, relative to plain ssh.
const MAX_FIRST_BYTE_RATIO: f64 = 1.2;
/// Numbers of tasks that run concurrently.
const TASK_COUNTS: [usize; 3] = [1, 100, 500];
/// Available memory that a concurrent task needs, in MiB. Both sides of a task run on this machine:
/// an ssh, the login shell, the siding that serves the mirror, and two shims.
const MEMORY_PER_TASK_MIB: u64 = 16;
/// Length of the output whose throughput is measured, and of each `write`, in bytes.
const OUTPUT_BYTES: u64 = 100 << 20;
const WRITE_BYTES: u64 = 64 << 10;

/// The contenders of the row, and the machine that they share.
struct SshBench<'b> {
    bench: &'b Bench,
    machine: SshMachine,
    client: ExecutorClient,
}

/// The times and the output of a call.
#[derive(Debug, Clone, Copy)]
struct CallResult {
    first_byte: Duration,
    exited: Duration,
    bytes: u64,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    if let Some(reason) = engine::missing_reason(ssh_machine::SCRIPT) {
        table.add_note(ROW_NAME, format!("skipped: {reason}"));
        return Ok(());
    }
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let machine = SshMachine::start(&place)?;
    let keys = format!(
        "host = \"{}\"\nprogram = \"{}\"\n",
        ssh_machine::DESTINATION,
        bench.workspace.siding_program().display()
    );
    let client = ExecutorClient::create(&place, &keys, vec![("PATH", machine.path_variable())])?;
    let ssh_bench = SshBench { bench, machine, client };
    ssh_bench.measure_call(table)?;
    ssh_bench.measure_many(table)?;
    ssh_bench.measure_throughput(table)?;
    ssh_bench.wait_until_idle()
}

/// Runs a call that writes at least one byte, and reads its output to the end.
fn read_call(command: &mut Command) -> Result<CallResult> {
    let started = Instant::now();
    let mut call = command.stdout(Stdio::piped()).spawn()?;
    let mut stdout = call.stdout.take().context("the output is piped")?;
    let first = stdout.read(&mut [0])? as u64;
    let first_byte = started.elapsed();
    let bytes = first + io::copy(&mut stdout, &mut io::sink())?;
    let status = call.wait()?;
    let exited = started.elapsed();
    ensure!(
        status.success() && first > 0,
        "{command:?} wrote {bytes} bytes, and ended with {status}"
    );
    Ok(CallResult { first_byte, exited, bytes })
}

impl SshBench<'_> {
    /// Waits until the shims of both sides have finished their final work.
    fn wait_until_idle(&self) -> Result<()> {
        self.client.wait_until_idle()?;
        self.machine.wait_until_idle()
    }

    /// Measures one short call over open connections. The first calls, which open the connections,
    /// belong to the warm-up.
    fn measure_call(&self, table: &mut ResultTable) -> Result<()> {
        let first_byte = self.time_calls(|call| call.first_byte)?;
        let exited = self.time_calls(|call| call.exited)?;
        let plain = "`ssh remote \"sh -c 'echo x'\"`, warm";
        let line = |what: &str, ours: &Samples, name: &str, theirs: &Samples| {
            TableLine::new(ROW_NAME, what, Unit::Ms, ours.median())
                .with_reference(name, theirs.median())
        };
        table.add(
            line("`siding run --on`: first byte", &first_byte[0], plain, &first_byte[1])
                .with_target(Target::RatioAtMost(MAX_FIRST_BYTE_RATIO)),
        );
        table.add(line("`siding run --on`: its end", &exited[0], plain, &exited[1]));
        let local = "`siding run` on this machine";
        table.add(line("`siding run --on`: first byte", &first_byte[0], local, &first_byte[2]));
        table.add(line("`siding run --on`: its end", &exited[0], local, &exited[2]));
        Ok(())
    }

    /// Returns the selected times of siding on the machine, of plain ssh, and of siding without an
    /// executor.
    fn time_calls(&self, select: fn(&CallResult) -> Duration) -> Result<Vec<Samples>> {
        let words = ["--", "sh", "-c", "echo x"];
        let mut turns: [Contender<'_>; 3] = [
            Box::new(|| {
                let call = read_call(&mut self.client.run(&words))?;
                self.wait_until_idle()?;
                Ok(select(&call))
            }),
            Box::new(|| Ok(select(&read_call(&mut self.machine.ssh_command("sh -c 'echo x'"))?))),
            Box::new(|| {
                let call = read_call(&mut self.client.run_locally(&words))?;
                self.client.wait_until_idle()?;
                Ok(select(&call))
            }),
        ];
        let rounds = InterleavedRounds { warm_up: 5, counted: self.bench.mode.pick(30, 200) };
        interleaved_runs::run_rounds(rounds, &mut turns)
    }

    fn measure_many(&self, table: &mut ResultTable) -> Result<()> {
        let available_mib = system_info::available_memory_mib()?;
        for count in TASK_COUNTS {
            if !fits_into_memory(count, available_mib) {
                let text = format!("{count} tasks: skipped, {available_mib} MiB are available");
                table.add_note(ROW_NAME, text);
                continue;
            }
            self.measure_count(count, table)?;
        }
        Ok(())
    }

    /// Measures `count` concurrent tasks, and counts the connections that they add to the shared
    /// one.
    fn measure_count(&self, count: usize, table: &mut ResultTable) -> Result<()> {
        let added = Cell::new(0);
        let own_turn: Contender<'_> = Box::new(|| {
            let before = self.machine.accepted_connections()?;
            let took = self.client.time_background_tasks(count)?;
            self.wait_until_idle()?;
            added.set((self.machine.accepted_connections()? - before).max(added.get()));
            Ok(took)
        });
        let ssh_turn: Contender<'_> =
            Box::new(|| time_concurrent_calls(count, || self.machine.ssh_command("true").spawn()));
        let reference = format!("{count} × `ssh remote true &`, `wait`");
        let mut turns = match count {
            1 => [own_turn, ssh_turn],
            _ => [
                with_progress(format!("{count} tasks of siding"), own_turn),
                with_progress(reference.clone(), ssh_turn),
            ],
        };
        let pick = |quick, full| self.bench.mode.pick(quick, full);
        let (warm_up, counted) = match count {
            1 => (2, pick(10, 50)),
            100 => (0, pick(1, 3)),
            // One round takes minutes on a machine with two processors.
            _ => (0, 1),
        };
        let rounds = InterleavedRounds { warm_up, counted };
        let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
        let what = format!("{count} tasks: start until all ended");
        table.add(
            TableLine::new(ROW_NAME, what, Unit::Ms, times[0].median())
                .with_reference(reference, times[1].median()),
        );
        let connections = 1.0 + added.get() as f64;
        table.add(
            TableLine::new(ROW_NAME, "  connections of siding", Unit::Count, connections)
                .with_target(Target::AtMost(1.0)),
        );
        Ok(())
    }

    /// Measures the speed at which a command's output arrives at the reader of the call.
    fn measure_throughput(&self, table: &mut ResultTable) -> Result<()> {
        let program = self.bench.workspace.bench_program().display().to_string();
        let (bytes, chunk) = (OUTPUT_BYTES.to_string(), WRITE_BYTES.to_string());
        let words = ["--budget", "none", "--", &program, WRITE_COMMAND, &bytes, &chunk];
        let text = format!("{program} {WRITE_COMMAND} {bytes} {chunk}");
        let complete = |call: CallResult| {
            ensure!(call.bytes == OUTPUT_BYTES, "{} of {OUTPUT_BYTES} bytes arrived", call.bytes);
            Ok(call.exited)
        };
        let mut turns: [Contender<'_>; 2] = [
            Box::new(|| {
                let took = complete(read_call(&mut self.client.run(&words))?)?;
                self.wait_until_idle()?;
                Ok(took)
            }),
            Box::new(|| complete(read_call(&mut self.machine.ssh_command(&text))?)),
        ];
        let rounds = InterleavedRounds { warm_up: 1, counted: self.bench.mode.pick(3, 9) };
        let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
        let rate = |ms: f64| (OUTPUT_BYTES >> 20) as f64 / (ms / 1e3);
        table.add(
            TableLine::new(
                ROW_NAME,
                "100 MiB of output",
                Unit::MibPerSecond,
                rate(times[0].median()),
            )
            .with_reference("`ssh remote COMMAND`", rate(times[1].median())),
        );
        Ok(())
    }
}

fn fits_into_memory(count: usize, available_mib: u64) -> bool {
    count as u64 * MEMORY_PER_TASK_MIB <= available_mib
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_needs_too_much_memory_is_left_out() {
        assert!(fits_into_memory(100, 1_600));
        assert!(!fits_into_memory(500, 7_999));
    }

    #[test]
    fn a_call_without_output_is_an_error() {
        let call = |text: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", text]);
            read_call(&mut command)
        };
        assert_eq!(call("echo x").expect("it writes").bytes, 2);
        assert!(call("true").is_err() && call("echo x; exit 1").is_err());
    }
}

//! The cost of `siding top` with a thousand listed tasks, on a pseudoterminal.

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use siding_e2e::Terminal;

use super::Row;
use crate::bench::Bench;
use crate::bench::idle_tasks;
use crate::bench::process_usage;
use crate::bench::recorded_tasks::{self, RecordedState};
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "top";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "`siding top` with 1,000 listed tasks, 100 of which run",
    measure,
};

const RUNNING_COUNT: usize = 100;
const ENDED_COUNT: usize = 900;
/// Columns and rows of the terminal, on which every column with a value and about 45 tasks are
/// visible.
const TERMINAL_SIZE: (u16, u16) = (200, 50);
/// Time after which the first measurements of the tasks are done.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// Time between two reads of the screen, as of a terminal that draws 20 frames a second.
const FRAME_TIME: Duration = Duration::from_millis(50);

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    recorded_tasks::write_tasks(&place, ENDED_COUNT, RecordedState::Ended)?;
    let mut client = place.client()?;
    client.is_background = true;
    let _shims = idle_tasks::start_idle_tasks(&client, RUNNING_COUNT)?;
    let mut frames = Samples::default();
    for _ in 0..bench.mode.pick(3, 11) {
        let started = Instant::now();
        let screen = TopScreen::start(&place)?;
        frames.push_time(started.elapsed());
        screen.quit()?;
    }
    table.add(
        TableLine::new(ROW_NAME, "`siding top`: start to first frame", Unit::Ms, frames.median())
            .with_target(Target::AtMost(100.0)),
    );
    let mut screen = TopScreen::start(&place)?;
    let pid = i32::try_from(screen.program.id())?;
    let cpu = || process_usage::cpu_usage(pid).context("`siding top` has exited");
    screen.show_for(SETTLE_TIME);
    let (before, started) = (cpu()?, Instant::now());
    screen.show_for(Duration::from_secs(bench.mode.pick(6, 20) as u64));
    let (after, took) = (cpu()?, started.elapsed());
    let percent = (after.cpu_ns - before.cpu_ns) as f64 / took.as_nanos() as f64 * 100.0;
    table.add(
        TableLine::new(ROW_NAME, "  of one core", Unit::Percent, percent)
            .with_target(Target::AtMost(1.0)),
    );
    let peak = process_usage::peak_resident(pid).context("`siding top` has exited")?;
    table.add(
        TableLine::new(ROW_NAME, "  peak memory", Unit::KiB, peak)
            .with_target(Target::AtMost(30.0 * 1024.0)),
    );
    screen.quit()?;
    place.stop_all()
}

/// A `siding top` that has drawn its first frame.
struct TopScreen {
    terminal: Terminal,
    program: Child,
}

impl TopScreen {
    fn start(place: &RowDir) -> Result<Self> {
        let (columns, rows) = TERMINAL_SIZE;
        let mut terminal = Terminal::new(columns, rows);
        let mut command = place.siding_command(["top"]);
        command.env("TERM", "xterm-256color");
        command.stdin(terminal.device_fd().try_clone()?).stdout(terminal.device_fd().try_clone()?);
        let program = command.spawn()?;
        terminal.wait_for_row(&format!("{RUNNING_COUNT} running"));
        Ok(Self { terminal, program })
    }

    /// Reads the output as a terminal does, so that the program can write.
    fn show_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let _shown = self.terminal.screen();
            std::thread::sleep(FRAME_TIME);
        }
    }

    fn quit(mut self) -> Result<()> {
        self.terminal.send_keys("q");
        let status = self.program.wait()?;
        ensure!(status.success(), "`siding top` ended with {status}");
        Ok(())
    }
}

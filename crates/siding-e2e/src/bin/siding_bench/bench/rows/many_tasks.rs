//! Checks that a thousand tasks and two hundred concurrent waits stay within the limits of an
//! ordinary user.

use std::fs;
use std::fs::File;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, inotify};
use serde_json::{Value, json};
use siding_model::id::TaskId;

use super::Row;
use crate::bench::client::argv_command;
use crate::bench::helper_commands::{CROWD_COMMAND, WAIT_FIFO_COMMAND};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;
use crate::bench::{Bench, syscalls};

const ROW_NAME: &str = "crowd";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "1,000 tasks that end together, and 200 waits, as an ordinary user",
    measure,
};

const TASK_COUNT: usize = 1000;
const WAIT_COUNT: usize = 200;
/// The user id of this row's processes if the caller is root. No other process has this user id, so
/// only the tasks of this row count against the limits per user.
const UNPRIVILEGED_UID: u32 = 65_533;
/// Capacity of a new pipe as long as the user has not exceeded the pipe limits (pipe(7)).
const DEFAULT_PIPE_BYTES: usize = 64 << 10;
/// Longest time until all waits are connected to their tasks, and longest time from the close of
/// the FIFO until all waits have ended.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let dir = bench.workspace.path().join(ROW_NAME);
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
    let mut command = Command::new(bench.workspace.bench_program());
    command
        .arg(CROWD_COMMAND)
        .arg(&dir)
        .arg(bench.workspace.siding_program())
        .args([TASK_COUNT, WAIT_COUNT].map(|number| number.to_string()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if rustix::process::geteuid().is_root() {
        chown(&dir, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))?;
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "the host process ended with {}", output.status);
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| found[name].as_f64().with_context(|| format!("no `{name}`"));
    let mut add = |what: &str, unit: Unit, name: &str, target: Target| -> Result<()> {
        table.add(TableLine::new(ROW_NAME, what, unit, number(name)?).with_target(target));
        Ok(())
    };
    add("tasks that ended with 0", Unit::Count, "tasks", Target::AtLeast(TASK_COUNT as f64))?;
    add("waits that ended with 0", Unit::Count, "waits", Target::AtLeast(WAIT_COUNT as f64))?;
    add("size of the user's next pipe", Unit::KiB, "pipe_kib", Target::AtLeast(64.0))?;
    add("inotify instances still available", Unit::Count, "inotify", Target::AtLeast(1.0))?;
    add("all ends until the last wait ended", Unit::Ms, "ended_ms", Target::None)?;
    table.add_note(ROW_NAME, format!("as user {}", number("user")?));
    Ok(())
}

/// Starts the tasks and waits of this row. All tasks read from one FIFO and end when it has no
/// writer left. Each wait covers several tasks; together the waits cover all tasks.
pub(in crate::bench) fn run_host(place: &RowDir, tasks: usize, waits: usize) -> Result<Value> {
    let client = place.client()?;
    let fifo = place.dir.join("fifo");
    let rights = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, rights, 0)?;
    // The FIFO is also opened for reading, because an open only for writing blocks until another
    // process opens the FIFO for reading (fifo(7)).
    let hold = File::options().read(true).write(true).open(&fifo)?;
    let own = std::env::current_exe()?;
    let (own, fifo) = (own.to_string_lossy(), fifo.to_string_lossy());
    let mut ids = vec![];
    for _ in 0..tasks {
        let task = client.start(argv_command([&own, WAIT_FIFO_COMMAND, &fifo]))?;
        task.wait_until_running()?;
        ids.push(task.id);
    }
    let calls = start_waits(place, &ids, waits)?;
    let pipe = new_pipe_bytes()?;
    let instances = available_inotify_instances();
    let released_at = syscalls::monotonic_now();
    drop(hold);
    let succeeded = wait_for_all(calls)?;
    let ended = syscalls::monotonic_now() - released_at;
    place.wait_until_idle()?;
    let ended_well = ids.iter().filter(|id| client.ensure_success(**id).is_ok()).count();
    Ok(json!({
        "user": rustix::process::geteuid().as_raw(),
        "tasks": ended_well,
        "waits": succeeded,
        "pipe_kib": pipe / 1024,
        "inotify": instances,
        "ended_ms": ended.as_secs_f64() * 1e3,
    }))
}

/// Starts the waits and returns when every wait is connected to its tasks.
fn start_waits(place: &RowDir, ids: &[TaskId], waits: usize) -> Result<Vec<Child>> {
    let each = ids.len().div_ceil(waits);
    let calls: Vec<Child> = ids
        .chunks(each)
        .map(|ids| {
            place
                .siding_command(["wait", "--timeout", "5m"])
                .args(ids.iter().map(TaskId::to_string))
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    let until = Instant::now() + COMPLETION_TIMEOUT;
    for call in &calls {
        while !is_connected(call.id(), each) {
            ensure!(Instant::now() < until, "a `siding wait` did not start to wait");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(calls)
}

/// Returns whether a wait has one connection per task. The result is also true for a wait that has
/// already exited, because the caller checks the exit code later.
fn is_connected(pid: u32, tasks: usize) -> bool {
    let is_socket = |path: &std::path::Path| path.to_string_lossy().starts_with("socket:");
    let descriptors = siding_e2e::processes::descriptors(pid);
    let connections = descriptors.iter().filter(|(_, path)| is_socket(path));
    connections.count() >= tasks
        || !matches!(siding_e2e::processes::state(pid), Some(state) if state != 'Z')
}

fn new_pipe_bytes() -> Result<usize> {
    let (read, _write) = rustix::pipe::pipe()?;
    let size = rustix::pipe::fcntl_getpipe_size(read)?;
    ensure!(
        size <= DEFAULT_PIPE_BYTES,
        "a new pipe of {size} bytes is larger than the kernel's default"
    );
    Ok(size)
}

/// Returns the number of inotify instances that the user can still create, but at most 16.
fn available_inotify_instances() -> usize {
    let made = std::iter::repeat_with(|| inotify::init(inotify::CreateFlags::CLOEXEC));
    made.take(16).take_while(Result::is_ok).collect::<Vec<_>>().len()
}

fn wait_for_all(calls: Vec<Child>) -> Result<usize> {
    let until = Instant::now() + COMPLETION_TIMEOUT;
    let mut succeeded = 0;
    for mut call in calls {
        let status = loop {
            if let Some(status) = call.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                bail!("a `siding wait` did not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        succeeded += usize::from(status.success());
    }
    Ok(succeeded)
}

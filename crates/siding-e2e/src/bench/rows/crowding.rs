//! A thousand tasks and two hundred waits at once, as an ordinary user.

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
use crate::bench::client::argv;
use crate::bench::roles::{CROWD, UNTIL};
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::{Bench, kernel};

const NAME: &str = "crowd";

pub(super) const ROW: Row = Row {
    name: NAME,
    about: "1,000 tasks that end at once and 200 waits, as an ordinary user",
    measure,
};

const TASKS: usize = 1000;
const WAITS: usize = 200;
/// Whom to be when we are root: a number that nobody else uses, so that the limits per user are
/// met by nobody else's doing.
const ORDINARY: u32 = 65_533;
/// What a new pipe holds while its user is within the limits (pipe(7)).
const PIPE: usize = 64 << 10;
/// How long all may take to end once they are let go.
const PATIENCE: Duration = Duration::from_secs(60);

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let dir = bench.stage.path().join(NAME);
    fs::create_dir(&dir)?;
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
    let mut command = Command::new(bench.stage.own());
    command
        .arg(CROWD)
        .arg(&dir)
        .arg(bench.stage.siding())
        .args([TASKS, WAITS].map(|number| number.to_string()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if rustix::process::geteuid().is_root() {
        chown(&dir, Some(ORDINARY), Some(ORDINARY))?;
        command.uid(ORDINARY).gid(ORDINARY);
    }
    let output = command.output()?;
    ensure!(output.status.success(), "the crowd's host ended with {}", output.status);
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let number = |name: &str| found[name].as_f64().with_context(|| format!("no `{name}`"));
    let mut add = |what: &str, unit: Unit, name: &str, target: Target| -> Result<()> {
        table.add(Line::new(NAME, what, unit, number(name)?).target(target));
        Ok(())
    };
    add("tasks that ended with 0", Unit::Count, "tasks", Target::AtLeast(TASKS as f64))?;
    add("waits that ended with 0", Unit::Count, "waits", Target::AtLeast(WAITS as f64))?;
    add("the user's next pipe meanwhile", Unit::KiB, "pipe_kib", Target::AtLeast(64.0))?;
    add("inotify instances to be had then", Unit::Count, "inotify", Target::AtLeast(1.0))?;
    add("all ends until the last wait ended", Unit::Ms, "ended_ms", Target::None)?;
    table.note(NAME, format!("as user {}", number("user")?));
    Ok(())
}

/// Is the host of the crowd. Every task ends when the one FIFO they all read from has no writer
/// any more; each wait is for several of them, so that every task is waited for.
pub(in crate::bench) fn endure(place: &Place, tasks: usize, waits: usize) -> Result<Value> {
    let client = place.client()?;
    let fifo = place.dir.join("fifo");
    let rights = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, rights, 0)?;
    // For reading too, or else the open would wait for a reader.
    let hold = File::options().read(true).write(true).open(&fifo)?;
    let own = std::env::current_exe()?;
    let (own, fifo) = (own.to_string_lossy(), fifo.to_string_lossy());
    let mut ids = vec![];
    for _ in 0..tasks {
        let task = client.start(argv([&own, UNTIL, &fifo]))?;
        task.until_running()?;
        ids.push(task.id);
    }
    let calls = start_waits(place, &ids, waits)?;
    let pipe = next_pipe()?;
    let instances = inotify_instances();
    let let_go = kernel::now();
    drop(hold);
    let succeeded = until_all_ended(calls)?;
    let ended = kernel::now() - let_go;
    place.until_quiet()?;
    let ended_well = ids.iter().filter(|id| client.succeeded(**id).is_ok()).count();
    Ok(json!({
        "user": rustix::process::geteuid().as_raw(),
        "tasks": ended_well,
        "waits": succeeded,
        "pipe_kib": pipe / 1024,
        "inotify": instances,
        "ended_ms": ended.as_secs_f64() * 1e3,
    }))
}

/// Starts the waits and returns when all of them wait.
fn start_waits(place: &Place, ids: &[TaskId], waits: usize) -> Result<Vec<Child>> {
    let each = ids.len().div_ceil(waits);
    let calls: Vec<Child> = ids
        .chunks(each)
        .map(|ids| {
            place
                .siding(["wait", "--timeout", "5m"])
                .args(ids.iter().map(TaskId::to_string))
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    let until = Instant::now() + PATIENCE;
    for call in &calls {
        while !is_connected(call.id(), each) {
            ensure!(Instant::now() < until, "a wait does not come to wait");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(calls)
}

/// Whether a call has as many connections as it has tasks, or has ended, which is found later.
fn is_connected(pid: u32, tasks: usize) -> bool {
    let is_socket = |path: &std::path::Path| path.to_string_lossy().starts_with("socket:");
    let descriptors = siding_e2e::processes::descriptors(pid);
    let connections = descriptors.iter().filter(|(_, path)| is_socket(path));
    connections.count() >= tasks
        || !matches!(siding_e2e::processes::state(pid), Some(state) if state != 'Z')
}

fn next_pipe() -> Result<usize> {
    let (read, _write) = rustix::pipe::pipe()?;
    let size = rustix::pipe::fcntl_getpipe_size(read)?;
    ensure!(size <= PIPE, "a pipe of {size} bytes is not what this kernel gives");
    Ok(size)
}

/// Returns how many instances can be made at once, at most 16.
fn inotify_instances() -> usize {
    let made = std::iter::repeat_with(|| inotify::init(inotify::CreateFlags::CLOEXEC));
    made.take(16).take_while(Result::is_ok).collect::<Vec<_>>().len()
}

fn until_all_ended(calls: Vec<Child>) -> Result<usize> {
    let until = Instant::now() + PATIENCE;
    let mut succeeded = 0;
    for mut call in calls {
        let status = loop {
            if let Some(status) = call.try_wait()? {
                break status;
            }
            if Instant::now() >= until {
                bail!("a wait does not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        succeeded += usize::from(status.success());
    }
    Ok(succeeded)
}

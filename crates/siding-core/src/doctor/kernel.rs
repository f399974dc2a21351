//! What the kernel offers.

use std::path::{Path, PathBuf};

use siding_model::id::{Birthmark, TaskId};

use super::{Check, State, Weight, number_in};
use crate::cgroup::{Delegation, Own};
use crate::sys::{descriptor, limit, machine, pidfd, process, procfs};

/// Looks at all of it.
pub(super) fn checks() -> Vec<Check> {
    vec![
        pidfd_open(),
        close_range(),
        exit_of_strangers(),
        subreaper(),
        birthmark(),
        children(),
        visible(),
        boot_id(),
        ticks(),
        memory_file(),
        cgroup(),
        yama(),
    ]
}

fn pidfd_open() -> Check {
    let works = pidfd::works();
    Check {
        name: "pidfd_open",
        state: State::present(works.is_ok()),
        weight: Weight::Needed,
        found: works.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        without: "nothing is started: a process could be mistaken for a later one",
    }
}

fn close_range() -> Check {
    let works = descriptor::can_close_a_range();
    Check {
        name: "close_range",
        state: State::present(works.is_ok()),
        weight: Weight::Needed,
        found: works.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        without: "nothing is started: a shim would hold what belongs to its caller",
    }
}

fn exit_of_strangers() -> Check {
    let tells = pidfd::tells_exit_of_strangers();
    Check {
        name: "PIDFD_GET_INFO",
        state: State::present(tells),
        weight: Weight::Guarantee,
        found: if tells {
            "tells the exit status of a stranger"
        } else {
            "no exit status of strangers (Linux 6.15 and later have it)"
        }
        .to_owned(),
        without: "a task that ends after its shim was killed may be `lost` instead of its code",
    }
}

fn subreaper() -> Check {
    // Only this process is changed, and it is about to leave.
    let result = process::become_subreaper();
    Check {
        name: "subreaper",
        state: State::present(result.is_ok()),
        weight: Weight::Needed,
        found: result.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        without: "nobody could prove that nothing of a task is left",
    }
}

fn birthmark() -> Check {
    let readable = std::fs::read_to_string("/proc/self/limits")
        .is_ok_and(|limits| limits.contains("Max realtime timeout"));
    let (state, found) = if readable {
        room(limit::birthmark())
    } else {
        (State::Missing, "`/proc/PID/limits` does not show RLIMIT_RTTIME".to_owned())
    };
    Check {
        name: "birthmark",
        state,
        weight: Weight::Needed,
        found,
        without: "what escapes a task whose shim was killed could not be found",
    }
}

/// Says how deep tasks may still be nested. Each takes a random number below its parent's, so on
/// average the room shrinks by the factor e.
pub(super) fn room(mark: Option<Birthmark>) -> (State, String) {
    let Some(mark) = mark else {
        return (State::Ok, "free; tasks may be nested about 13 deep".to_owned());
    };
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rough number for people"
    )]
    let levels = (mark.0 as f64 / TaskId::MIN_BITS as f64).ln().max(0.0) as u64;
    let who = mark.task_id().map_or_else(
        || format!("RLIMIT_RTTIME is already {}", mark.0),
        |task| format!("inside task {task}"),
    );
    if mark.0 < TaskId::MIN_BITS + (1 << 17) {
        return (State::Missing, format!("{who}: no room for another mark"));
    }
    let state = if levels < 3 { State::Limited } else { State::Ok };
    (state, format!("{who}; room for about {levels} more levels of tasks"))
}

fn children() -> Check {
    let own = std::process::id();
    let there = Path::new(&format!("/proc/{own}/task/{own}/children")).exists();
    Check {
        name: "/proc/PID/task/TID/children",
        state: State::present(there),
        weight: Weight::Needed,
        found: if there { "readable" } else { "the kernel lacks CONFIG_PROC_CHILDREN" }.to_owned(),
        without: "the processes of a task could not be listed, and a stop would miss some",
    }
}

fn visible() -> Check {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let hidden = hidepid(&mounts).filter(|value| !matches!(value.as_str(), "0" | "off"));
    let (state, found) = match hidden {
        Some(value) if process::effective_uid() != 0 => {
            (State::Limited, format!("`/proc` is mounted with hidepid={value}"))
        }
        Some(value) => (State::Ok, format!("hidepid={value}, which does not hide from root")),
        None => (State::Ok, "not set: all processes are visible".to_owned()),
    };
    Check {
        name: "hidepid",
        state,
        weight: Weight::Guarantee,
        found,
        without: "a survivor that belongs to another user (sudo) may not be seen and named",
    }
}

/// Returns the option `hidepid` of the mount on `/proc`.
pub(super) fn hidepid(mountinfo: &str) -> Option<String> {
    let line = mountinfo.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"))?;
    let options = line.split(' ').flat_map(|field| field.split(','));
    options.filter_map(|option| option.strip_prefix("hidepid=")).map(str::to_owned).next()
}

fn boot_id() -> Check {
    let id = procfs::boot_id().map(|id| id.0);
    let good = id.as_ref().is_ok_and(|id| !id.is_empty());
    Check {
        name: "boot id",
        state: State::present(good),
        weight: Weight::Needed,
        found: id.unwrap_or_else(|error| format!("not readable: {error}")),
        without: "records of the boot before could be taken for ones of this boot",
    }
}

fn ticks() -> Check {
    let ticks = machine::ticks_per_second();
    let usual = ticks == procfs::TICKS_PER_SECOND;
    Check {
        name: "clock ticks",
        state: if usual { State::Ok } else { State::Limited },
        weight: Weight::Guarantee,
        found: format!("{ticks} in a second"),
        without: "CPU times of processes would be shown wrong (100 are expected)",
    }
}

fn memory_file() -> Check {
    let file = descriptor::memory_file("siding-doctor");
    Check {
        name: "memfd_create",
        state: State::present(file.is_ok()),
        weight: Weight::Needed,
        found: file.map_or_else(|error| format!("refused: {error}"), |_| "works".to_owned()),
        without: "a task's environment could not be handed over without writing it to the disk",
    }
}

fn cgroup() -> Check {
    let own = Own::find().filter(|own| own.home().is_dir());
    let (state, found) = own.map_or_else(
        || (State::Missing, "no cgroup2 hierarchy that this process is in".to_owned()),
        |own| delegation(&own),
    );
    Check {
        name: "cgroup2 delegation",
        state,
        weight: Weight::Comfort,
        found,
        without: "what lowers its mark and outlives its killed shim is not found",
    }
}

fn delegation(own: &Own) -> (State, String) {
    let home = own.home();
    let shown = home.display();
    match own.delegation() {
        Delegation::Foreign => (State::Limited, format!("`{shown}` is another user's")),
        Delegation::Managed => {
            (State::Limited, format!("`{shown}` is not delegated (xattr user.delegate)"))
        }
        Delegation::Ours if !machine::may_write(&home) => {
            (State::Limited, format!("`{shown}` cannot be written"))
        }
        // The root of the hierarchy has no such file, the groups below it do.
        Delegation::Ours
            if home.join("cgroup.type").exists() && !home.join("cgroup.kill").exists() =>
        {
            (State::Limited, format!("each task in a group in `{shown}`, without cgroup.kill"))
        }
        Delegation::Ours => (State::Ok, format!("each task in a group in `{shown}`")),
    }
}

fn yama() -> Check {
    let scope = number_in("/proc/sys/kernel/yama/ptrace_scope");
    let (state, found) = match scope {
        None => (State::Ok, "not there".to_owned()),
        Some(scope @ (0 | 1)) => (State::Ok, format!("ptrace_scope {scope}: a shim may look")),
        Some(scope) => (State::Limited, format!("ptrace_scope {scope}: only root may look")),
    };
    Check {
        name: "Yama",
        state,
        weight: Weight::Comfort,
        found,
        without: "on what a silent process waits is told less exactly",
    }
}

/// Looks for the shell that runs commands given as one text.
pub(super) fn shell(name: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(&path).map(|dir| dir.join(name)).collect()
    };
    let place = places.iter().find(|place| machine::may_execute(place));
    Check {
        name: "shell",
        state: if place.is_some() { State::Ok } else { State::Limited },
        weight: Weight::Guarantee,
        found: place.map_or_else(
            || format!("`{name}` is not in PATH; set `shell` to another"),
            |place| place.display().to_string(),
        ),
        without: "commands given as one text fail to start; programs with arguments run",
    }
}

//! Checks of kernel features, and of the shell that runs commands.

use std::path::{Path, PathBuf};

use siding_model::id::{Birthmark, TaskId};

use super::{Check, CheckState, CheckWeight, read_number};
use crate::processes::cgroup::{Delegation, OwnCgroup};
use crate::sys::{birthmark, descriptor, pidfd, process, procfs, system_info};

/// Runs all checks of the kernel.
pub(super) fn checks() -> Vec<Check> {
    vec![
        pidfd_open(),
        close_range(),
        exit_of_non_children(),
        subreaper(),
        birthmark(),
        children_file(),
        visible_processes(),
        boot_id(),
        clock_ticks(),
        memfd(),
        cgroup(),
        yama(),
    ]
}

fn pidfd_open() -> Check {
    let works = pidfd::probe();
    Check {
        name: "pidfd_open",
        state: CheckState::from_presence(works.is_ok()),
        weight: CheckWeight::Needed,
        found: works.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        missing_guarantee: "no command is started: a signal could reach a process that has reused the id",
    }
}

fn close_range() -> Check {
    let works = descriptor::probe_close_range();
    Check {
        name: "close_range",
        state: CheckState::from_presence(works.is_ok()),
        weight: CheckWeight::Needed,
        found: works.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        missing_guarantee: "no command is started, because a shim would keep its caller's descriptors open",
    }
}

fn exit_of_non_children() -> Check {
    let tells = pidfd::reports_exit_of_non_children();
    Check {
        name: "PIDFD_GET_INFO",
        state: CheckState::from_presence(tells),
        weight: CheckWeight::Guarantee,
        found: if tells {
            "reports the exit status of processes that are not children"
        } else {
            "no exit status of processes that are not children (needs Linux 6.15)"
        }
        .to_owned(),
        missing_guarantee: "a task that ends after its shim was killed may be `lost`, without an exit code",
    }
}

fn subreaper() -> Check {
    let result = process::probe_subreaper();
    Check {
        name: "subreaper",
        state: CheckState::from_presence(result.is_ok()),
        weight: CheckWeight::Needed,
        found: result.map_or_else(|error| format!("refused: {error}"), |()| "works".to_owned()),
        missing_guarantee: "it could not be proven that no process of a task is left",
    }
}

fn birthmark() -> Check {
    let readable = std::fs::read_to_string("/proc/self/limits")
        .is_ok_and(|limits| limits.contains("Max realtime timeout"));
    let (state, found) = if readable {
        nesting_room(birthmark::own_birthmark())
    } else {
        (CheckState::Missing, "`/proc/PID/limits` does not show RLIMIT_RTTIME".to_owned())
    };
    Check {
        name: "birthmark",
        state,
        weight: CheckWeight::Needed,
        found,
        missing_guarantee: "processes that escape a task whose shim was killed could not be found",
    }
}

/// Returns the state and an estimate of how many levels of tasks can still be nested. Each task
/// receives a random number below its parent's, so each level shrinks the remaining range by a
/// factor of e on average, until [`TaskId::from_random`] refuses.
pub(super) fn nesting_room(mark: Option<Birthmark>) -> (CheckState, String) {
    let remaining_ids = TaskId::count_below(mark.map_or(u64::MAX, |mark| mark.0));
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate for display"
    )]
    let levels = (remaining_ids as f64 / TaskId::TOO_FEW_IDS as f64).ln().max(0.0) as u64;
    let Some(mark) = mark else {
        return (CheckState::Ok, format!("free; tasks may be nested about {levels} deep"));
    };
    let who = mark.task_id().map_or_else(
        || format!("RLIMIT_RTTIME is already {}", mark.0),
        |task| format!("inside task {task}"),
    );
    if remaining_ids <= TaskId::TOO_FEW_IDS {
        return (CheckState::Missing, format!("{who}: no room for another mark"));
    }
    let state = if levels < 3 { CheckState::Limited } else { CheckState::Ok };
    (state, format!("{who}; room for about {levels} more levels of tasks"))
}

fn children_file() -> Check {
    let own = std::process::id();
    let there = Path::new(&format!("/proc/{own}/task/{own}/children")).exists();
    Check {
        name: "/proc/PID/task/TID/children",
        state: CheckState::from_presence(there),
        weight: CheckWeight::Needed,
        found: if there { "readable" } else { "the kernel lacks CONFIG_PROC_CHILDREN" }.to_owned(),
        missing_guarantee: "the processes of a task could not be listed, and a stop would miss some",
    }
}

fn visible_processes() -> Check {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let hidden = hidepid(&mounts).filter(|value| !matches!(value.as_str(), "0" | "off"));
    let (state, found) = match hidden {
        Some(value) if process::effective_uid() != 0 => {
            (CheckState::Limited, format!("`/proc` is mounted with hidepid={value}"))
        }
        Some(value) => (CheckState::Ok, format!("hidepid={value}, which does not hide from root")),
        None => (CheckState::Ok, "not set: all processes are visible".to_owned()),
    };
    Check {
        name: "hidepid",
        state,
        weight: CheckWeight::Guarantee,
        found,
        missing_guarantee: "a surviving process of another user (sudo) may not be found and reported",
    }
}

/// Returns the `hidepid` option of the last mount on `/proc`, which hides earlier mounts.
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
        state: CheckState::from_presence(good),
        weight: CheckWeight::Needed,
        found: id.unwrap_or_else(|error| format!("not readable: {error}")),
        missing_guarantee: "records of an earlier boot could be mistaken for ones of this boot",
    }
}

fn clock_ticks() -> Check {
    let ticks = system_info::ticks_per_second();
    let usual = ticks == procfs::TICKS_PER_SECOND;
    Check {
        name: "clock ticks",
        state: if usual { CheckState::Ok } else { CheckState::Limited },
        weight: CheckWeight::Guarantee,
        found: format!("{ticks} per second"),
        missing_guarantee: "CPU times of processes would be shown wrong (100 are expected)",
    }
}

fn memfd() -> Check {
    let file = descriptor::create_memfd("siding-doctor");
    Check {
        name: "memfd_create",
        state: CheckState::from_presence(file.is_ok()),
        weight: CheckWeight::Needed,
        found: file.map_or_else(|error| format!("refused: {error}"), |_| "works".to_owned()),
        missing_guarantee: "a task's environment could not be passed on without writing it to disk",
    }
}

fn cgroup() -> Check {
    let own = OwnCgroup::find().filter(|own| own.task_groups_dir().is_dir());
    let (state, found) = own.map_or_else(
        || (CheckState::Missing, "this process is in no cgroup2 hierarchy".to_owned()),
        |own| delegation(&own),
    );
    Check {
        name: "cgroup2 delegation",
        state,
        weight: CheckWeight::Comfort,
        found,
        missing_guarantee: "a process that lowers its mark and outlives its shim is not found",
    }
}

fn delegation(own: &OwnCgroup) -> (CheckState, String) {
    let home = own.task_groups_dir();
    let shown = home.display();
    match own.delegation() {
        Delegation::OtherUser => {
            (CheckState::Limited, format!("`{shown}` belongs to another user"))
        }
        Delegation::Managed => {
            (CheckState::Limited, format!("`{shown}` is not delegated (xattr user.delegate)"))
        }
        Delegation::Delegated if !system_info::may_write(&home) => {
            (CheckState::Limited, format!("`{shown}` is not writable"))
        }
        // The root group has neither of these files; on Linux 5.14 and later, the groups below it
        // have both.
        Delegation::Delegated
            if home.join("cgroup.type").exists() && !home.join("cgroup.kill").exists() =>
        {
            (CheckState::Limited, format!("each task in a group in `{shown}`, without cgroup.kill"))
        }
        Delegation::Delegated => (CheckState::Ok, format!("each task in a group in `{shown}`")),
    }
}

fn yama() -> Check {
    let scope = read_number("/proc/sys/kernel/yama/ptrace_scope");
    let (state, found) = match scope {
        None => (CheckState::Ok, "not present".to_owned()),
        Some(scope @ (0 | 1)) => {
            (CheckState::Ok, format!("ptrace_scope {scope}: a shim may inspect its task"))
        }
        Some(scope) => {
            (CheckState::Limited, format!("ptrace_scope {scope}: only root may inspect processes"))
        }
    };
    Check {
        name: "Yama",
        state,
        weight: CheckWeight::Comfort,
        found,
        missing_guarantee: "the cause of a silence is reported less exactly",
    }
}

/// Checks that the shell for commands given as one string exists and is executable.
pub(super) fn shell(name: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = if name.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(&path).map(|dir| dir.join(name)).collect()
    };
    let place = places.iter().find(|place| system_info::may_execute(place));
    Check {
        name: "shell",
        state: if place.is_some() { CheckState::Ok } else { CheckState::Limited },
        weight: CheckWeight::Guarantee,
        found: place.map_or_else(
            || format!("`{name}` is not in PATH; set `shell` to another"),
            |place| place.display().to_string(),
        ),
        missing_guarantee: "commands given as one string fail to start; programs with arguments run",
    }
}

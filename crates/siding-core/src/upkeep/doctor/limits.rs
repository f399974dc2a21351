//! Checks whether this user's resource limits suffice for 1,000 concurrent tasks.

use super::{Check, CheckState, CheckWeight, read_number};
use crate::processes::cgroup::OwnCgroup;
use crate::sys::{process, system_info};

/// The number of concurrent tasks for which siding is designed.
const DESIGN_TASKS: u64 = 1_000;

/// Runs all checks of resource limits.
pub(super) fn checks() -> Vec<Check> {
    vec![open_files(), processes(), pipe_pages(), inotify()]
}

fn open_files() -> Check {
    let bound = system_info::open_files_limit();
    // A wait holds one descriptor for each task, and the reaper one for each process that it
    // terminates.
    let enough = bound.hard.is_none_or(|hard| hard >= 2 * DESIGN_TASKS);
    let shown = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |at| at.to_string());
    Check {
        name: "RLIMIT_NOFILE",
        state: if enough { CheckState::Ok } else { CheckState::Limited },
        weight: CheckWeight::Guarantee,
        found: format!("{} soft, {} hard", shown(bound.soft), shown(bound.hard)),
        missing_guarantee: "one call cannot wait for 1,000 tasks (a hard limit of 2,000 is enough)",
    }
}

fn processes() -> Check {
    let ordinary = process::effective_uid() != 0;
    let limits = [
        ("RLIMIT_NPROC", system_info::process_limit().soft.filter(|_| ordinary)),
        ("pids.max of its cgroup", pids_max()),
        ("kernel.pid_max", read_number("/proc/sys/kernel/pid_max")),
        ("kernel.threads-max", read_number("/proc/sys/kernel/threads-max")),
    ];
    let least = limits.into_iter().filter_map(|(name, at)| Some((at?, name))).min();
    // Each task has a shim and at least one process.
    let enough = least.is_none_or(|(at, _)| at >= 3 * DESIGN_TASKS);
    Check {
        name: "processes",
        state: if enough { CheckState::Ok } else { CheckState::Limited },
        weight: CheckWeight::Guarantee,
        found: least.map_or_else(
            || "no limit found".to_owned(),
            |(at, name)| format!("at most {at} ({name}): about {} tasks", at / 2),
        ),
        missing_guarantee: "1,000 concurrent tasks do not fit; starting more fails with a clear error",
    }
}

/// Returns the smallest `pids.max` of this process's cgroup and of the ancestors of that cgroup;
/// `None` if none of them is limited.
fn pids_max() -> Option<u64> {
    let own = OwnCgroup::find()?.directory();
    own.ancestors().filter_map(|path| read_number(path.join("pids.max").to_str()?)).min()
}

fn pipe_pages() -> Check {
    let soft = read_number("/proc/sys/fs/pipe-user-pages-soft").filter(|pages| *pages > 0);
    // The pipe of a quiet task uses one page; the pipe of a busy task uses many pages.
    let enough = soft.is_none_or(|pages| pages >= 4 * DESIGN_TASKS);
    let found = match soft {
        Some(pages) if process::effective_uid() == 0 => format!("{pages}, not enforced for root"),
        Some(pages) => format!("{pages}; a quiet task takes one"),
        None => "no limit".to_owned(),
    };
    Check {
        name: "pipe-user-pages-soft",
        state: if enough || process::effective_uid() == 0 {
            CheckState::Ok
        } else {
            CheckState::Limited
        },
        weight: CheckWeight::Guarantee,
        found,
        missing_guarantee: "with 1,000 tasks all pipes of this user become small, and slow",
    }
}

fn inotify() -> Check {
    let instances = read_number("/proc/sys/fs/inotify/max_user_instances");
    Check {
        name: "inotify",
        state: CheckState::from_presence(instances.is_some_and(|instances| instances > 0)),
        weight: CheckWeight::Comfort,
        found: instances.map_or_else(
            || "not present".to_owned(),
            |instances| format!("{instances} instances per user; a wait for a file and a follower of notices use one each"),
        ),
        missing_guarantee: "`siding notices --follow` fails, and a wait for a file checks at intervals",
    }
}

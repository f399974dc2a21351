//! Checks whether a host is supervised, so that siding adopts its sandboxed commands and terminates
//! the processes that remain after its exit.

use siding_core::host::{check_supervisable, supervised_mark};
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::{birthmark, procfs};
use siding_core::upkeep::doctor::{Check, CheckState, CheckWeight};
use siding_model::process::ProcRef;

use super::Host;
use crate::context;
use crate::install::hosts::HookHost;

/// The state of a check, what the check found, and a repair if one is needed.
type CheckResult = (CheckState, String, Option<String>);

/// Returns the result of [`check_system`] if it found a problem, otherwise that of
/// [`check_sessions`].
pub(super) fn check_supervision(host: Host) -> (Check, Option<String>) {
    let (state, found, repair) = check_system().unwrap_or_else(|| check_sessions(host));
    let missing_guarantee =
        "sandboxed commands are not supervised; processes of a killed host keep running";
    let name = "sandboxed commands";
    (Check { name, state, weight: CheckWeight::Guarantee, found, missing_guarantee }, repair)
}

/// Returns the problem that prevents the supervision of all hosts; `None` if there is none.
fn check_system() -> Option<CheckResult> {
    if !context::load_valid_settings().supervise_hosts {
        let repair = "supervise_hosts = true in the settings (`siding config show`)";
        let found = "supervise_hosts is false in the settings";
        return Some((CheckState::Missing, found.to_owned(), Some(repair.to_owned())));
    }
    if let Err(error) = birthmark::probe_set_birthmark() {
        let found = format!("no process can be marked: prlimit (RLIMIT_RTTIME): {error}");
        let repair = "allow prlimit64 in this container's seccomp filter";
        return Some((CheckState::Missing, found, Some(repair.to_owned())));
    }
    None
}

/// Checks that each process of this host that owns a running session is supervised.
fn check_sessions(host: Host) -> CheckResult {
    let quiet =
        (CheckState::Ok, "its process is marked at the start of each session".to_owned(), None);
    let (Some(path), Ok(boot)) = (StateDir::default_path(), procfs::boot_id()) else {
        return quiet;
    };
    if !path.exists() {
        return quiet;
    }
    let Ok(root) = StateDir::open(&path) else { return quiet };
    let Some(begin) = host.hook_host().map(HookHost::session_prefix) else { return quiet };
    let sessions = session::list_sessions(&root).unwrap_or_default().into_iter();
    let of_host = sessions.filter(|one| !one.is_closed && one.id.as_str().starts_with(begin));
    let mut owners: Vec<ProcRef> = of_host.filter_map(|one| one.living_owner(&boot)).collect();
    owners.sort_unstable_by_key(|owner| owner.pid);
    owners.dedup();
    let unwatched = owners.iter().filter(|owner| supervised_mark(&root, **owner).is_none());
    let why = |owner: &ProcRef| match check_supervisable(*owner) {
        Err(why) => format!("process {}: {why}", owner.pid),
        Ok(_) => format!("process {} started before siding marked hosts", owner.pid),
    };
    let why: Vec<String> = unwatched.map(why).collect();
    if why.is_empty() {
        let found = match owners.len() {
            0 => return quiet,
            1 => "the running session is supervised".to_owned(),
            count => format!("{count} running sessions are supervised"),
        };
        return (CheckState::Ok, found, None);
    }
    let repair = "restart the agent as an ordinary process of this user, outside `siding run` and \
                  not as the first process of a container (`docker run --init`)"
        .to_owned();
    (CheckState::Limited, why.join("; "), Some(repair))
}

//! Builds the environment of a task, which is passed in memory and never written to disk.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use siding_model::net::{NetPolicy, Ports};
use siding_model::terminal::TERMINAL_TYPE;

use super::error::RunError;
use super::start::PreparedTask;
use crate::net::proxy;

/// Variables that keep an agent's programs from prompting an absent person or opening a pager. A
/// value that the caller's environment already contains is kept.
pub const NONINTERACTIVE_VARIABLES: [(&str, &str); 4] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PAGER", "cat"),
];

/// Variables with tokens that grant access to siding's servers. A server must not pass them to the
/// commands that it runs.
const WITHHELD_VARIABLES: [&str; 3] = ["SIDING_MCP_TOKEN", "SIDING_A2A_TOKEN", "SIDING_WEB_TOKEN"];

/// The variables of a task to which those of its request are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BaseEnvironment {
    /// The variables of the starter and [`NONINTERACTIVE_VARIABLES`].
    #[default]
    Unattended,
    /// The variables of the starter, for the command of a person, who can answer a prompt.
    Inherited,
    /// No variables.
    Empty,
}

/// Returns the complete environment of the command as `NAME=value` strings.
pub(super) fn task_environment(task: &PreparedTask) -> Result<Vec<CString>, RunError> {
    let PreparedTask { spec, env, base_environment, .. } = task;
    if spec.is_remote() {
        // The remote machine adds the variables of its login, its policy and its task.
        return env.iter().map(|(name, value)| assignment(name.as_ref(), value.as_ref())).collect();
    }
    let mut variables = base_variables(*base_environment);
    // A relative path would name another directory for commands that the task runs in another
    // working directory.
    if let Some((_, place)) = variables.iter_mut().find(|(name, _)| name == "SIDING_STATE_DIR")
        && let Ok(absolute) = std::path::absolute(&*place)
    {
        *place = absolute.into();
    }
    if spec.terminal.is_some() {
        add_terminal_variables(&mut variables);
    }
    add_policy_variables(&spec.net, &mut variables);
    for (name, value) in env {
        set_variable(&mut variables, name, value.as_ref());
    }
    set_variable(&mut variables, "SIDING_TASK", spec.task_id.to_string().as_ref());
    // A `siding run` inside the task then belongs to the session of that task.
    if !spec.session_id.is_implicit() {
        set_variable(&mut variables, "SIDING_SESSION", spec.session_id.as_str().as_ref());
    }
    variables.iter().map(|(name, value)| assignment(name, value)).collect()
}

fn base_variables(base: BaseEnvironment) -> Vec<(OsString, OsString)> {
    if base == BaseEnvironment::Empty {
        return Vec::new();
    }
    let mut variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    variables.retain(|(name, _)| !WITHHELD_VARIABLES.iter().any(|withheld| name == withheld));
    if base == BaseEnvironment::Unattended {
        for (name, value) in NONINTERACTIVE_VARIABLES {
            if !variables.iter().any(|(known, _)| known == name) {
                variables.push((name.into(), value.into()));
            }
        }
    }
    variables
}

/// Sets the variables of a command that has a terminal of its own. The variables of the request are
/// set later and replace these.
fn add_terminal_variables(variables: &mut Vec<(OsString, OsString)>) {
    // These variables describe the terminal of the starter, and some programs prefer them to the
    // size of the terminal itself.
    variables.retain(|(name, _)| name != "LINES" && name != "COLUMNS");
    set_variable(variables, "TERM", TERMINAL_TYPE.as_ref());
}

/// Sets the variables that programs need under the network policy. The variables of the request,
/// which are set later, replace these.
fn add_policy_variables(policy: &NetPolicy, variables: &mut Vec<(OsString, OsString)>) {
    /// Variables in which most programs look for a proxy, in upper and lower case.
    const PROXY_VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    /// Names and addresses of servers in the task's own network namespace.
    const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
    match policy {
        // With only TCP permitted, the C library must send DNS queries over TCP (resolv.conf(5)).
        NetPolicy::Ports(ports) if ports.contains(Ports::DNS_PORT) => {
            if !variables.iter().any(|(known, _)| known == "RES_OPTIONS") {
                variables.push(("RES_OPTIONS".into(), "use-vc".into()));
            }
        }
        NetPolicy::Allow(hosts) => {
            // These variables replace those of the starter, because the starter's proxy is
            // unreachable from the namespace. A loopback name in the allow-list means the machine's
            // own loopback interface, so a request for this name must go through the proxy.
            let own: Vec<_> =
                LOOPBACK_HOSTS.into_iter().filter(|own| !hosts.contains_name(own)).collect();
            let own = own.join(",");
            let address = format!("http://127.0.0.1:{}", proxy::PROXY_PORT);
            let proxies = PROXY_VARIABLES.map(|name| (name, address.as_str()));
            for (name, value) in proxies.into_iter().chain([("NO_PROXY", own.as_str())]) {
                set_variable(variables, name, value.as_ref());
                set_variable(variables, &name.to_ascii_lowercase(), value.as_ref());
            }
        }
        NetPolicy::Ports(_) | NetPolicy::Unrestricted | NetPolicy::None | NetPolicy::Loopback => {}
    }
}

fn set_variable(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &OsStr) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.into(), value.into()));
}

fn assignment(name: &OsStr, value: &OsStr) -> Result<CString, RunError> {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes).map_err(|_| RunError::NulByte { name: name.to_string_lossy().into_owned() })
}

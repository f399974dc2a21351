//! The environment of a task. It goes to the task in memory and is never written to disk.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use siding_model::net::{NetPolicy, Ports};
use siding_model::spec::TaskSpec;

use super::error::RunError;
use super::start::LaunchEnv;
use crate::proxy;

/// What keeps programs from asking a person who is not there. A caller's own value wins.
const NONINTERACTIVE_VARIABLES: [(&str, &str); 4] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PAGER", "cat"),
];

/// What a server must not hand on to what it starts: it opens the server.
const WITHHELD_VARIABLES: [&str; 2] = ["SIDING_MCP_TOKEN", "SIDING_A2A_TOKEN"];

/// Returns the environment as `NAME=value`.
pub(super) fn task_environment(
    spec: &TaskSpec,
    launch_env: &LaunchEnv<'_>,
) -> Result<Vec<CString>, RunError> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    if !launch_env.env_clear {
        variables.extend(std::env::vars_os());
        variables.retain(|(name, _)| !WITHHELD_VARIABLES.iter().any(|withheld| name == withheld));
        for (name, value) in NONINTERACTIVE_VARIABLES {
            if !variables.iter().any(|(known, _)| known == name) {
                variables.push((name.into(), value.into()));
            }
        }
    }
    // A relative one would be another directory for what the task starts elsewhere.
    if let Some((_, place)) = variables.iter_mut().find(|(name, _)| name == "SIDING_STATE_DIR")
        && let Ok(absolute) = std::path::absolute(&*place)
    {
        *place = absolute.into();
    }
    add_policy_variables(&spec.net, &mut variables);
    for (name, value) in launch_env.env {
        set_unless_given(&mut variables, name, value.as_ref());
    }
    set_unless_given(&mut variables, "SIDING_TASK", spec.task_id.to_string().as_ref());
    // So that a `siding run` inside joins the session of the task around it.
    if !spec.session_id.is_implicit() {
        set_unless_given(&mut variables, "SIDING_SESSION", spec.session_id.as_str().as_ref());
    }
    variables.iter().map(|(name, value)| assignment(name, value)).collect()
}

/// Says what programs need to know of the network policy. A value of the call wins.
fn add_policy_variables(policy: &NetPolicy, variables: &mut Vec<(OsString, OsString)>) {
    /// Where most programs look for a proxy, each in either case.
    const PROXY_VARIABLES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    /// Where a task finds servers of its own.
    const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
    match policy {
        // Where only TCP goes out the C library is to ask for names over TCP.
        NetPolicy::Ports(ports) if ports.contains(Ports::DNS_PORT) => {
            if !variables.iter().any(|(known, _)| known == "RES_OPTIONS") {
                variables.push(("RES_OPTIONS".into(), "use-vc".into()));
            }
        }
        NetPolicy::Allow(hosts) => {
            // The starter's own proxy is out of reach, and so is what it needs none for. What is named
            // means the machine's, outside.
            let own: Vec<_> =
                LOOPBACK_HOSTS.into_iter().filter(|own| !hosts.contains_name(own)).collect();
            let own = own.join(",");
            let address = format!("http://127.0.0.1:{}", proxy::PROXY_PORT);
            let proxies = PROXY_VARIABLES.map(|name| (name, address.as_str()));
            for (name, value) in proxies.into_iter().chain([("NO_PROXY", own.as_str())]) {
                set_unless_given(variables, name, value.as_ref());
                set_unless_given(variables, &name.to_ascii_lowercase(), value.as_ref());
            }
        }
        NetPolicy::Ports(_) | NetPolicy::Unrestricted | NetPolicy::None | NetPolicy::Loopback => {}
    }
}

fn set_unless_given(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &OsStr) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.into(), value.into()));
}

fn assignment(name: &OsStr, value: &OsStr) -> Result<CString, RunError> {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes)
        .map_err(|_| RunError::ZeroByte { name: name.to_string_lossy().into_owned() })
}

//! The environment of a task. It goes to the task in memory and is never written to disk.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use siding_model::spec::TaskSpec;

use super::begin::Given;
use super::error::RunError;
use crate::net;

/// What keeps programs from asking a person who is not there. A caller's own value wins.
const UNATTENDED: [(&str, &str); 4] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PAGER", "cat"),
];

/// What a server must not hand on to what it starts: it opens the server.
const WITHHELD: [&str; 1] = ["SIDING_MCP_TOKEN"];

/// Returns the environment as `NAME=value`.
pub(super) fn of_task(spec: &TaskSpec, given: &Given<'_>) -> Result<Vec<CString>, RunError> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    if !given.env_clear {
        variables.extend(std::env::vars_os());
        variables.retain(|(name, _)| !WITHHELD.iter().any(|withheld| name == withheld));
        for (name, value) in UNATTENDED {
            if !variables.iter().any(|(known, _)| known == name) {
                variables.push((name.into(), value.into()));
            }
        }
    }
    if let Some((name, value)) = net::variables(&spec.net)
        && !variables.iter().any(|(known, _)| known == name)
    {
        variables.push((name.into(), value.into()));
    }
    for (name, value) in given.env {
        set(&mut variables, name, value.as_ref());
    }
    set(&mut variables, "SIDING_TASK", spec.task_id.to_string().as_ref());
    // So that a `siding run` inside joins the session of the task around it.
    if !spec.session_id.is_implicit() {
        set(&mut variables, "SIDING_SESSION", spec.session_id.as_str().as_ref());
    }
    variables.iter().map(|(name, value)| assignment(name, value)).collect()
}

fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &OsStr) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.into(), value.into()));
}

fn assignment(name: &OsStr, value: &OsStr) -> Result<CString, RunError> {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes)
        .map_err(|_| RunError::ZeroByte { name: name.to_string_lossy().into_owned() })
}

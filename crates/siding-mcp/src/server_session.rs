//! The session that a server works for.

use siding_core::run::request;
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_model::advice::Dialect;
use siding_tools::ToolContext;

use crate::serve::McpError;

/// What the name of a session begins with that a server has opened.
const SESSION_NAME_PREFIX: &str = "mcp-";

/// Opens the session that tasks belong to.
///
/// A named one is joined: somebody else opened it. That of the environment is only when it is of
/// the same owner: the client may have it from an agent that it runs in, or from one that has
/// gone. Otherwise it is named after its owner, so that a server which its client starts anew
/// finds its tasks again. `owner` is the process whose end is the session's end; a parent that
/// has gone already leaves only this process.
pub(crate) fn open_session(
    root: StateDir,
    named: Option<&str>,
    owner: i32,
) -> Result<ToolContext, McpError> {
    if named.is_some() {
        let joined = request::resolve_session(&root, named)?;
        if !joined.is_implicit() {
            return Ok(ToolContext::new(root, joined, None, Dialect::Tools));
        }
    }
    let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
    let owner = if owner > 1 { owner } else { own_pid };
    let process = procfs::identify(owner).ok_or(McpError::NoOwner { pid: owner })?;
    if let Some(session) = request::inherited_session(&root, process) {
        return Ok(ToolContext::new(root, session, None, Dialect::Tools));
    }
    let name = format!("{SESSION_NAME_PREFIX}{}-{}", process.pid, process.start_ticks);
    let session = name.parse().map_err(|_| McpError::NoOwner { pid: owner })?;
    session::open(&root, &session, owner)?;
    Ok(ToolContext::new(root, session, Some(process), Dialect::Tools))
}

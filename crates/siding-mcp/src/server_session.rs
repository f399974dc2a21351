//! The session that owns the server's tasks.

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_core::task::run::request;
use siding_model::advice::Dialect;
use siding_model::session_host::SessionHost;
use siding_tools::ToolContext;

use crate::error::McpError;

/// Opens the session that owns the server's tasks.
///
/// A named session is joined, since another process opened it; the name of the implicit session
/// counts as no name. The session of `SIDING_SESSION` is used only if `owner` owns it: the client
/// may have inherited the variable from an agent that started the client, or from one that has
/// exited. Otherwise the session is named after its owner, so that the tasks are found again when
/// the client restarts the server. A session that this function opens ends with the process `owner`
/// or, if `owner` is init because the client has already exited, with this process.
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
    let prefix = SessionHost::McpClient.session_prefix();
    let name = format!("{prefix}{}-{}", process.pid, process.start_ticks);
    let session = name.parse().map_err(|_| McpError::NoOwner { pid: owner })?;
    session::open(&root, &session, owner)?;
    Ok(ToolContext::new(root, session, Some(process), Dialect::Tools))
}

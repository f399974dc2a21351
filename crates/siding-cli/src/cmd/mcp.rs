//! `siding mcp`: serves siding's tools to MCP clients.

use std::net::SocketAddr;
use std::process::ExitCode;

use siding_mcp::{HttpOptions, McpError, McpOptions};

use crate::cmd::reap;
use crate::context;
use crate::failure::Failure;
use crate::stdout;

/// Serves siding's tools to an MCP client, over standard input and output or over HTTP.
///
/// Tools: run, output, wait, stop, list, input, why. The session that owns a client's tasks ends
/// with the client; then the tasks are stopped. Over HTTP every request needs the token that is
/// printed at the start, or the one in $SIDING_MCP_TOKEN.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding mcp                              how a client starts it
  siding mcp --session chat-7             with an open session
  siding mcp --http 127.0.0.1:7433        for this user's clients
  siding mcp --http 10.0.0.5:7433 --allow-remote --allow-host build.example

A client starts the command `siding` with the argument `mcp`. For Claude Code,
Codex, Gemini CLI and opencode, `siding install` writes this configuration.")]
pub(crate) struct Args {
    /// Serve HTTP on this address instead; port 0 chooses a free port
    #[arg(long, value_name = "ADDR", value_parser = super::parse_listen_address)]
    http: Option<SocketAddr>,
    /// Accept connections from other machines; ADDR need not be a loopback address
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// Host name that clients may use, in addition to those of loopback; may be repeated
    #[arg(long, value_name = "HOST", requires = "http")]
    allow_host: Vec<String>,
    /// Session that owns the tasks (default: $SIDING_SESSION if the client owns it, otherwise a new
    /// one that ends with the client)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        // As at every start of a session, the reaper removes what earlier sessions left. It runs on
        // a separate thread, because the client waits for the first answer.
        std::thread::spawn(move || {
            let cleared =
                context::open_state_dir().and_then(|root| reap::run_quietly(&root, &settings));
            if let Err(failure) = cleared {
                failure.report();
            }
        });
        let http = self.http.map(|address| HttpOptions {
            address,
            remote: self.allow_remote,
            hosts: self.allow_host,
        });
        let options = McpOptions { session: self.session, http };
        siding_mcp::serve(root, options, |line| {
            // Over HTTP this line is the only text on standard output. The server continues if
            // standard output is closed.
            let _peer_gone = stdout::print_text(&format!("{line}\n"));
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        match error {
            McpError::Session(error) => error.into(),
            McpError::Run(error) => error.into(),
            error @ (McpError::NoOwner { .. }
            | McpError::Door(_)
            | McpError::Handshake { .. }
            | McpError::Io { .. }) => Self::new(error),
        }
    }
}

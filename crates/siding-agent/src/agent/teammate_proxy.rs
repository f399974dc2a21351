//! The proxy process that represents a teammate as a task.
//!
//! A task is a process under a shim, but a teammate is a thread of its agent. The teammate's task
//! therefore runs this proxy, which copies the teammate's output from standard input to standard
//! output. A stop of the task, or its deadline, ends the proxy; the agent detects that and ends the
//! teammate. If the agent ends first, the proxy reports that and fails.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{file, poll};
use siding_model::process::ProcRef;

/// Size of the copy buffer in bytes.
const COPY_BUFFER_BYTES: usize = 16 << 10;

/// Why a proxy ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyExit {
    /// The agent closed the pipe.
    Done,
    /// The agent has ended, and the teammate with it.
    AgentEnded,
}

/// Copies standard input to standard output until the agent closes the input or ends. `host` names
/// the agent's process as `PID-START_TICKS`.
///
/// # Errors
///
/// The error of a failed system call; [`ErrorKind::InvalidInput`] if `host` is malformed.
pub fn run_teammate_proxy(host: &str) -> io::Result<ProxyExit> {
    let process = parse_agent(host).ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let Some(agent_pidfd) = PidFd::open_if_alive(process)? else { return report_agent_ended() };
    let from = io::stdin();
    let mut piece = vec![0; COPY_BUFFER_BYTES];
    loop {
        let ready = poll::wait_readable(&[from.as_fd(), agent_pidfd.as_fd()], None)?;
        // Standard input is read to its end before the agent's end is reported, so that no output
        // is lost.
        if ready.first() == Some(&true) {
            let count = file::read(&from, &mut piece)?;
            if count == 0 {
                return Ok(ProxyExit::Done);
            }
            let mut out = io::stdout().lock();
            out.write_all(&piece[..count])?;
            out.flush()?;
        } else if ready.get(1) == Some(&true) {
            return report_agent_ended();
        }
    }
}

fn report_agent_ended() -> io::Result<ProxyExit> {
    writeln!(
        io::stdout(),
        "siding: the agent of this teammate has ended, and the teammate with it"
    )?;
    Ok(ProxyExit::AgentEnded)
}

/// Returns the argument of [`run_teammate_proxy`] for an agent.
pub(super) fn agent_argument(host: ProcRef) -> String {
    format!("{}-{}", host.pid, host.start_ticks)
}

fn parse_agent(text: &str) -> Option<ProcRef> {
    let (pid, start_ticks) = text.split_once('-')?;
    Some(ProcRef { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_argument_parses_back() {
        let host = ProcRef { pid: 4711, start_ticks: 99 };
        assert_eq!(parse_agent(&agent_argument(host)), Some(host));
        for wrong in ["", "4711", "4711-", "-99", "x-1"] {
            assert_eq!(parse_agent(wrong), None, "{wrong}");
        }
    }
}

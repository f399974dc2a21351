//! What stands in the registry for a teammate, which is no process of its own.
//!
//! A task is a process under a shim. A teammate is a thread of the agent that has made it, so its task
//! is this: a process that writes down what the teammate says, and lives as long as both the teammate's
//! host and nobody who ends it want. Who stops the task, or its deadline, ends it, which the host
//! sees; when the host is gone, it says so and fails.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{file, poll};
use siding_model::process::ProcRef;

/// Bytes that are copied at once.
const COPY_BUFFER_BYTES: usize = 16 << 10;

/// How a stand-in ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyExit {
    /// The host has nothing more to say.
    Done,
    /// The host has ended, and the teammate with it.
    AgentEnded,
}

/// Copies what the host writes until it has ended or has closed it. `host` is the host's number and start, with a dash in between.
///
/// # Errors
///
/// The operating system's; [`ErrorKind::InvalidInput`] for a host that is none.
pub fn run_teammate_proxy(host: &str) -> io::Result<ProxyExit> {
    let process = parse_agent(host).ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
    let Some(agent_pidfd) = PidFd::open_if_alive(process)? else { return report_agent_ended() };
    let from = io::stdin();
    let mut piece = vec![0; COPY_BUFFER_BYTES];
    loop {
        let ready = poll::wait_readable(&[from.as_fd(), agent_pidfd.as_fd()], None)?;
        // What it wrote before it ended comes first.
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
        "siding: the agent that this teammate was part of has ended, and it too"
    )?;
    Ok(ProxyExit::AgentEnded)
}

/// Returns what [`run_teammate_proxy`] is told of its host.
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

//! Advice for a command that could not listen on a TCP port because the port is in use.

use std::net::IpAddr;

use super::{COMMAND_COLUMNS, Dialect};
use crate::id::TaskId;
use crate::text::one_line;

/// The current user of a TCP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortHolder {
    /// A process of a running task listens on the port.
    Task {
        /// The id of the task.
        id: TaskId,
        /// The command or name of the task, not escaped.
        command: String,
    },
    /// A process of the same user that belongs to no task listens on the port.
    Process {
        /// The process id.
        pid: i32,
        /// The command line of the process, not escaped.
        command: String,
    },
    /// A process of another user listens on the port.
    OtherUser {
        /// The id of that user.
        uid: u32,
    },
    /// A socket listens on the port, and the process that holds it is not visible, for example
    /// because it runs in a container.
    Hidden,
    /// No process listens on the port now.
    Nobody,
}

/// Returns the port in the last line of `output` that reports a port in use. Returns `None` if no
/// line does, or if that line names no port.
#[must_use]
pub fn find_conflicting_port(output: &str) -> Option<u16> {
    let line = output.lines().rev().map(str::to_lowercase).find(|line| reports_conflict(line))?;
    port_after_word(&line).or_else(|| port_of_address(&line)).or_else(|| port_in_tuple(&line))
}

/// Formats the holder of a port and the next step as a sentence.
#[must_use]
pub fn port_holder_advice(port: u16, holder: &PortHolder, dialect: Dialect) -> String {
    match holder {
        PortHolder::Task { id, command } => format!(
            "port {port} is held now by {id} ({}); {} ends it, or choose another port",
            one_line(command, COMMAND_COLUMNS),
            dialect.format_task_call("stop", *id)
        ),
        PortHolder::Process { pid, command } => format!(
            "port {port} is held now by process {pid} ({}), which is in no task; choose another \
             port, or end that process if it is yours (`kill {pid}`)",
            one_line(command, COMMAND_COLUMNS)
        ),
        PortHolder::OtherUser { uid } => format!(
            "port {port} is held now by a process of another user (user id {uid}); choose another \
             port"
        ),
        PortHolder::Hidden => format!(
            "port {port} is held now by a process that siding cannot see, perhaps in a container; \
             choose another port"
        ),
        PortHolder::Nobody => format!(
            "port {port} was in use, and no process listens on it now: the command can be started \
             again"
        ),
    }
}

/// Returns whether a line in lower case says that a port is in use. A line such as
/// `port 3000 is in use, trying 3001` does not count, because that server uses another port.
fn reports_conflict(line: &str) -> bool {
    let names_port = || words(line).any(|word| word == "port");
    line.contains("address already in use")
        || line.contains("eaddrinuse")
        || ((line.contains("in use") || line.contains("already allocated"))
            && names_port()
            && !line.contains("trying"))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// Finds `port 3000` or `port: 3000`.
fn port_after_word(line: &str) -> Option<u16> {
    words(line)
        .zip(words(line).skip(1))
        .find_map(|(word, next)| if word == "port" { parse_port(next) } else { None })
}

/// Finds the last address with a port, such as `127.0.0.1:3000`, `:::3000`, `[::]:80`, `*:6379` or
/// `:8080`. A position in a file, such as `main.rs:10:5`, is not an address.
fn port_of_address(line: &str) -> Option<u16> {
    let is_delimiter = |char: char| char.is_whitespace() || "()'\"`{}<>,;".contains(char);
    let address = |token: &str| {
        let token = token.trim_end_matches([':', '.']);
        let (host, port) = token.rsplit_once(':')?;
        // The host of `http://localhost:3000`.
        let host = host.rsplit('/').next()?.trim_matches(['[', ']']);
        let is_host = ["", "*", "localhost"].contains(&host) || host.parse::<IpAddr>().is_ok();
        is_host.then(|| parse_port(port)).flatten()
    };
    line.split(is_delimiter).filter_map(address).next_back()
}

/// Finds the port in a pair such as `('127.0.0.1', 8000)`, in which Python prints an address.
fn port_in_tuple(line: &str) -> Option<u16> {
    let (_, rest) = line.rsplit_once("', ")?;
    rest.split([')', ',']).next().and_then(parse_port)
}

fn parse_port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_number && *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_in_the_messages_of_servers() {
        for (output, port) in [
            (
                "Error: listen EADDRINUSE: address already in use :::3000\n    at x (node:net:1:2)",
                3000,
            ),
            ("Error: listen EADDRINUSE: address already in use 127.0.0.1:3001", 3001),
            ("main.go:12: listen tcp :8080: bind: address already in use", 8080),
            (
                "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
                8000,
            ),
            ("Address already in use\nPort 5000 is in use by another program.", 5000),
            ("Error: Port 5173 is already in use", 5173),
            (
                "Address already in use - bind(2) for \"127.0.0.1\" port 3002 (Errno::EADDRINUSE)",
                3002,
            ),
            ("Web server failed to start. Port 8081 was already in use.", 8081),
            (
                "2024/01/01 12:34:56 [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)",
                80,
            ),
            (
                "Could not create server TCP listening socket *:6379: bind: Address already in use",
                6379,
            ),
            ("Bind for 0.0.0.0:8082 failed: port is already allocated", 8082),
            ("bind(5, {AF=2 0.0.0.0:8083}, 16): Address already in use", 8083),
            ("cannot listen on http://localhost:4000: address already in use", 4000),
            ("listen tcp [::]:9090: bind: address already in use", 9090),
        ] {
            assert_eq!(find_conflicting_port(output), Some(port), "{output}");
        }
        for output in [
            "",
            "listening on :3000",
            "Port 3000 is in use, trying another one...",
            "memory report: 30 % in use",
            "OSError: [Errno 98] Address already in use",
            "panicked at src/main.rs:10:5: Os { message: \"Address already in use\" }",
            "address already in use 127.0.0.1:99999",
            "address already in use 127.0.0.1:0",
        ] {
            assert_eq!(find_conflicting_port(output), None, "{output}");
        }
    }

    #[test]
    fn the_advice_names_the_holder_and_the_next_step() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let task = PortHolder::Task { id, command: "npm run\ndev".to_owned() };
        assert_eq!(
            port_holder_advice(3000, &task, Dialect::Commands),
            "port 3000 is held now by b-4k7q0n2m8x5t (npm run\\ndev); `siding stop \
             b-4k7q0n2m8x5t` ends it, or choose another port"
        );
        let advice = port_holder_advice(3000, &task, Dialect::Tools);
        assert!(advice.contains("; `stop` ends it"), "{advice}");
        for (holder, part) in [
            (PortHolder::Process { pid: 7, command: "node x".to_owned() }, "process 7 (node x)"),
            (PortHolder::OtherUser { uid: 33 }, "another user (user id 33)"),
            (PortHolder::Hidden, "siding cannot see"),
            (PortHolder::Nobody, "can be started again"),
        ] {
            let advice = port_holder_advice(80, &holder, Dialect::Commands);
            assert!(advice.starts_with("port 80 ") && advice.contains(part), "{advice}");
        }
    }
}

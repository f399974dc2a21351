//! Queries the version of a host's program.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use siding_model::text::one_line;

/// Maximum run time of `--version`; the slowest known program needs one second.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum columns of the returned version; a longer line is cut.
const VERSION_COLUMNS: usize = 60;
/// Bytes of standard output to read; the rest is ignored.
const MAX_VERSION_BYTES: u64 = 4 << 10;

/// Returns the first line of the output of `--version` that is not blank.
pub(super) fn query_version(program: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let stdout = child.stdout.take().expect("standard output is piped");
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.take(MAX_VERSION_BYTES).read_to_string(&mut text);
        // After a timeout the receiver is dropped.
        let _receiver_dropped = sender.send(read.map(|_| text));
    });
    let answer = receiver.recv_timeout(VERSION_TIMEOUT);
    // The answer is complete or too late, so the process is no longer needed.
    let _already_ended = child.kill();
    let _already_ended = child.wait();
    match answer {
        Ok(Ok(text)) => match text.lines().find(|line| !line.trim().is_empty()) {
            Some(line) => Ok(one_line(line.trim(), VERSION_COLUMNS)),
            None => Err("it prints nothing".to_owned()),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", VERSION_TIMEOUT.as_secs())),
    }
}

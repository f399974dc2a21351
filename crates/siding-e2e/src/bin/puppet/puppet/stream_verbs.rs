//! The verbs that act on streams, files and sockets.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use siding_e2e::fill_pattern::FillPattern;

use super::puppet_process::PuppetProcess;
use super::steps::ReopenMode;
use super::syscalls;

/// Time between two heartbeats.
pub(super) const BEAT_INTERVAL: Duration = Duration::from_millis(20);
/// Size of the buffer in which `fill` generates several lines, each of which is still a separate
/// write, and of the buffer of `read-stdin`.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) fn write_text(actor: &PuppetProcess, verb: &str, fd: i32, text: &str) {
    syscalls::write_all(fd, text.as_bytes());
    actor.log_step(verb, &[("text", text.trim_end_matches('\n').to_owned())]);
}

pub(super) fn print_env(actor: &PuppetProcess, name: &str) {
    let text = match std::env::var_os(name) {
        Some(value) => format!("{name}={}\n", value.display()),
        None => format!("{name} unset\n"),
    };
    write_text(actor, "env", 1, &text);
}

pub(super) fn beat(actor: &PuppetProcess, path: &Path) -> ! {
    let heart = BeatFile::open(path).unwrap_or_else(|error| actor.fail_verb("beat", &error));
    actor.announce("beat", &[("text", path.display().to_string())]);
    loop {
        heart.append_beat();
        std::thread::sleep(BEAT_INTERVAL);
    }
}

/// A file that grows by one byte per heartbeat, so that a test can determine whether its writers
/// are alive.
#[derive(Debug)]
pub(super) struct BeatFile(File);

impl BeatFile {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(path).map(Self)
    }

    pub(super) fn append_beat(&self) {
        let _best_effort = (&self.0).write_all(b".");
    }
}

pub(super) fn listen(actor: &PuppetProcess, path: &Path, port: u16) {
    let opened = std::net::TcpListener::bind(("127.0.0.1", port)).and_then(|listener| {
        let port = listener.local_addr()?.port();
        // The file gets its final name only when it is complete, because a test waits for that name
        // and then reads the port.
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, port.to_string())?;
        std::fs::rename(&unfinished, path)?;
        Ok((listener, port))
    });
    match opened {
        Ok((listener, port)) => {
            std::mem::forget(listener);
            actor.announce("listen", &[("port", port.to_string())]);
        }
        Err(error) => actor.fail_verb("listen", &error),
    }
}

pub(super) fn fill(actor: &PuppetProcess, bytes: u64, shape: FillPattern) {
    actor.log_step("fill", &[("bytes", bytes.to_string())]);
    let buffer_bytes = match shape {
        FillPattern::Lines(len) => len * (BUFFER_BYTES / len).max(1),
        FillPattern::Blocks(len) => len,
    };
    let mut buffer = vec![];
    let mut written = 0;
    while written < bytes {
        buffer.clear();
        let len = (bytes - written).min(buffer_bytes as u64) as usize;
        shape.append(written, len, &mut buffer);
        for chunk in buffer.chunks(shape.write_len()) {
            if !syscalls::write_all(1, chunk) {
                actor.fail_verb("fill", &io::Error::last_os_error());
            }
        }
        written += len as u64;
    }
    actor.log_step("filled", &[("bytes", bytes.to_string())]);
}

pub(super) fn read_stdin(actor: &PuppetProcess) {
    actor.log_step("read-stdin", &[]);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut total = 0;
    loop {
        match syscalls::read(0, &mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                total += count;
                syscalls::write_all(1, &buffer[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => actor.fail_verb("read-stdin", &error),
        }
    }
    actor.announce("eof", &[("bytes", total.to_string())]);
}

/// Announces a step with its error number, if it failed; the script continues in both cases.
fn announce_result(actor: &PuppetProcess, verb: &str, what: String, done: io::Result<()>) {
    let text = ("text", what);
    match done {
        Ok(()) => actor.announce(verb, &[text]),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0).to_string();
            actor.announce(verb, &[("error", number), text]);
        }
    }
}

pub(super) fn reopen(actor: &PuppetProcess, how: ReopenMode, path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    options.create(true);
    let (verb, options) = match how {
        ReopenMode::Truncate => ("reopen", options.write(true).truncate(true)),
        ReopenMode::Append => ("reopen-append", options.append(true)),
        ReopenMode::ReadWrite => ("reopen-rw", options.read(true).write(true)),
    };
    let done = options.open(path).and_then(|mut file| writeln!(file, "{text}"));
    announce_result(actor, verb, path.display().to_string(), done);
}

pub(super) fn truncate(actor: &PuppetProcess, path: &Path) {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let done = opened.and_then(|file| syscalls::truncate(file.as_raw_fd()));
    announce_result(actor, "truncate", path.display().to_string(), done);
}

pub(super) fn ftruncate(actor: &PuppetProcess, fd: i32) {
    announce_result(actor, "ftruncate", fd.to_string(), syscalls::truncate(fd));
}

pub(super) fn rewind(actor: &PuppetProcess, fd: i32, text: &str) {
    let done = syscalls::rewind(fd);
    // Writes even if the seek failed, as real programs that rewind their output do.
    syscalls::write_all(fd, format!("{text}\n").as_bytes());
    announce_result(actor, "rewind", fd.to_string(), done);
}

pub(super) fn remove(actor: &PuppetProcess, path: &Path) {
    let done =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    announce_result(actor, "remove", path.display().to_string(), done);
}

pub(super) fn chmod(actor: &PuppetProcess, mode: u32, path: &Path) {
    let done = std::fs::set_permissions(path, Permissions::from_mode(mode));
    announce_result(actor, "chmod", path.display().to_string(), done);
}

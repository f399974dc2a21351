//! What a puppet does with streams, files and sockets.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use siding_e2e::fill::Shape;

use super::actor::Actor;
use super::kernel;
use super::steps::Reopen;

/// Time between two beats.
pub(super) const BEAT: Duration = Duration::from_millis(20);
/// Text lines are written one by one, but made in stretches of about this size.
const STRETCH: usize = 64 * 1024;

pub(super) fn say(actor: &Actor, verb: &str, fd: i32, text: &str) {
    kernel::write_all(fd, text.as_bytes());
    actor.note(verb, &[("text", text.trim_end_matches('\n').to_owned())]);
}

pub(super) fn env(actor: &Actor, name: &str) {
    let text = match std::env::var_os(name) {
        Some(value) => format!("{name}={}\n", value.display()),
        None => format!("{name} unset\n"),
    };
    say(actor, "env", 1, &text);
}

pub(super) fn beat(actor: &Actor, path: &Path) -> ! {
    let heart = Heart::open(path).unwrap_or_else(|error| actor.cannot("beat", &error));
    actor.announce("beat", &[("text", path.display().to_string())]);
    loop {
        heart.beat();
        std::thread::sleep(BEAT);
    }
}

/// A file that grows by a byte a beat.
#[derive(Debug)]
pub(super) struct Heart(File);

impl Heart {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().append(true).create(true).open(path).map(Self)
    }

    pub(super) fn beat(&self) {
        let _full_disk = (&self.0).write_all(b".");
    }
}

pub(super) fn listen(actor: &Actor, path: &Path, port: u16) {
    let opened = std::net::TcpListener::bind(("127.0.0.1", port)).and_then(|listener| {
        let port = listener.local_addr()?.port();
        // Under its name only when it is whole, since a test waits for the name.
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
        Err(error) => actor.cannot("listen", &error),
    }
}

pub(super) fn fill(actor: &Actor, bytes: u64, shape: Shape) {
    actor.note("fill", &[("bytes", bytes.to_string())]);
    let stretch = match shape {
        Shape::Lines(len) => len * (STRETCH / len).max(1),
        Shape::Blocks(len) => len,
    };
    let mut buffer = vec![];
    let mut written = 0;
    while written < bytes {
        buffer.clear();
        let len = (bytes - written).min(stretch as u64) as usize;
        shape.append(written, len, &mut buffer);
        for chunk in buffer.chunks(shape.chunk()) {
            if !kernel::write_all(1, chunk) {
                actor.cannot("fill", &io::Error::last_os_error());
            }
        }
        written += len as u64;
    }
    actor.note("filled", &[("bytes", bytes.to_string())]);
}

pub(super) fn read_stdin(actor: &Actor) {
    actor.note("read-stdin", &[]);
    let mut buffer = vec![0; STRETCH];
    let mut total = 0;
    loop {
        match kernel::read(0, &mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                total += count;
                kernel::write_all(1, &buffer[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => actor.cannot("read-stdin", &error),
        }
    }
    actor.announce("eof", &[("bytes", total.to_string())]);
}

/// Announces a step that the system may refuse without the script ending.
fn tell(actor: &Actor, verb: &str, what: String, done: io::Result<()>) {
    let text = ("text", what);
    match done {
        Ok(()) => actor.announce(verb, &[text]),
        Err(error) => {
            let number = error.raw_os_error().unwrap_or(0).to_string();
            actor.announce(verb, &[("error", number), text]);
        }
    }
}

pub(super) fn reopen(actor: &Actor, how: Reopen, path: &Path, text: &str) {
    let mut options = OpenOptions::new();
    options.create(true);
    let (verb, options) = match how {
        Reopen::Truncate => ("reopen", options.write(true).truncate(true)),
        Reopen::Append => ("reopen-append", options.append(true)),
        Reopen::ReadWrite => ("reopen-rw", options.read(true).write(true)),
    };
    let done = options.open(path).and_then(|mut file| writeln!(file, "{text}"));
    tell(actor, verb, path.display().to_string(), done);
}

pub(super) fn truncate(actor: &Actor, path: &Path) {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let done = opened.and_then(|file| kernel::truncate(file.as_raw_fd()));
    tell(actor, "truncate", path.display().to_string(), done);
}

pub(super) fn ftruncate(actor: &Actor, fd: i32) {
    tell(actor, "ftruncate", fd.to_string(), kernel::truncate(fd));
}

pub(super) fn rewind(actor: &Actor, fd: i32, text: &str) {
    let done = kernel::rewind(fd);
    // Programs that rewind do not look whether they could.
    kernel::write_all(fd, format!("{text}\n").as_bytes());
    tell(actor, "rewind", fd.to_string(), done);
}

pub(super) fn remove(actor: &Actor, path: &Path) {
    let done =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    tell(actor, "remove", path.display().to_string(), done);
}

pub(super) fn chmod(actor: &Actor, mode: u32, path: &Path) {
    let done = std::fs::set_permissions(path, Permissions::from_mode(mode));
    tell(actor, "chmod", path.display().to_string(), done);
}

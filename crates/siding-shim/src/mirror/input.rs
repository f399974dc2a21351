//! The standard input of a mirror's task: reads the bytes of the caller or of `siding input`, and
//! sends them to the remote machine.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use siding_core::store::task_files::INPUT_FIFO;
use siding_core::sys::inspect_process::{self, TargetKind};
use siding_core::sys::{clock, file, poll, procfs};
use siding_model::mirror::RemoteEvent;
use siding_model::protocol::ShimRequest;
use siding_model::record::Record;
use siding_model::remote::{
    InputAction, InputPosition, InputSender, MAX_INPUT_MESSAGE_BYTES, RemoteRequest,
};
use siding_model::spec::StdinMode;

use super::Mirror;

/// The local source of a remote task's input.
#[derive(Debug)]
pub(super) struct MirrorInput {
    sender: InputSender,
    /// `None` after the end, and once the remote task reads nothing more.
    source: Option<InputSource>,
    /// The mirror's write end of the FIFO, which keeps the input open for `siding input`; `None` if
    /// the input is not a FIFO, or a client has closed it.
    keepalive: Option<OwnedFd>,
}

/// The descriptor that the mirror reads.
#[derive(Debug)]
struct InputSource {
    fd: OwnedFd,
    is_nonblocking: bool,
}

impl MirrorInput {
    /// Prepares the input of a new task; `None` if it is empty. A FIFO is created in `dir`, the
    /// task's runtime directory. `inherited` is the descriptor of the caller.
    pub(super) fn create(
        mode: StdinMode,
        inherited: Option<OwnedFd>,
        dir: BorrowedFd<'_>,
    ) -> io::Result<Option<Self>> {
        let (source, keepalive) = match mode {
            StdinMode::Null => return Ok(None),
            StdinMode::Pipe => {
                file::create_fifo(dir, INPUT_FIFO)?;
                let fd = file::open_at(dir, INPUT_FIFO, file::OpenMode::Read)?;
                let write = file::open_at(dir, INPUT_FIFO, file::OpenMode::FifoWrite)?;
                (InputSource { fd, is_nonblocking: true }, Some(write))
            }
            StdinMode::Inherit => {
                let inherited = inherited.ok_or(ErrorKind::InvalidData)?;
                (InputSource::from_inherited(inherited), None)
            }
        };
        Ok(Some(Self { sender: InputSender::default(), source: Some(source), keepalive }))
    }

    /// Prepares the input for a mirror that took over: the killed one had the only descriptor of
    /// the source, and bytes in its memory. The FIFO is removed, so that later writers fail.
    /// `is_loss_recorded` tells whether an earlier takeover has recorded the loss.
    pub(super) fn take_over(
        mode: StdinMode,
        is_loss_recorded: bool,
        dir: BorrowedFd<'_>,
    ) -> Option<Self> {
        match mode {
            StdinMode::Null => None,
            StdinMode::Pipe | StdinMode::Inherit => {
                let _already_removed = file::remove(dir, INPUT_FIFO);
                let sender = InputSender::without_source(is_loss_recorded);
                Some(Self { sender, source: None, keepalive: None })
            }
        }
    }

    /// Returns the descriptor to poll; `None` while nothing may be read.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref().filter(|_| self.sender.free_bytes() > 0)?;
        Some(source.fd.as_fd())
    }

    /// Reads the bytes that are available, up to the space of the window.
    fn read(&mut self) {
        while let Some(source) = &self.source {
            let mut buffer = vec![0; self.sender.free_bytes().min(MAX_INPUT_MESSAGE_BYTES)];
            // A read into an empty buffer would look like the end.
            if buffer.is_empty() {
                return;
            }
            match source.read(&mut buffer) {
                Ok(None) => return,
                Ok(Some(count)) => {
                    self.sender.on_read(&buffer[..count]);
                    if count == 0 {
                        self.source = None;
                    }
                }
                Err(_) => {
                    self.sender.on_source_lost();
                    self.source = None;
                }
            }
        }
    }

    /// Closes the source if the remote task reads nothing more: writers then fail with `EPIPE`.
    fn close_if_unread(&mut self) {
        if self.sender.is_closed() {
            self.source = None;
            self.keepalive = None;
        }
    }
}

impl InputSource {
    fn from_inherited(fd: OwnedFd) -> Self {
        // Another process may read the same pipe between poll(2) and read(2), and a blocking read
        // would stop the mirror. O_NONBLOCK belongs to the open file description, which the caller
        // shares, so a pipe is opened again. A file is not: it would be read from its start.
        let raw = fd.as_raw_fd();
        let own_pid = procfs::self_pid_in_proc().unwrap_or_default();
        let target = inspect_process::fd_target(own_pid, raw);
        if target.is_some_and(|target| target.kind == TargetKind::Fifo) {
            let path = format!("/proc/self/fd/{raw}");
            if let Ok(own) = file::open_followed(Path::new(&path), false) {
                return Self { fd: own, is_nonblocking: true };
            }
        }
        Self { fd, is_nonblocking: false }
    }

    /// Reads without waiting. `None` if no bytes have arrived.
    fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.is_nonblocking && !poll::is_readable(self.fd.as_fd()) {
            return Ok(None);
        }
        match file::read(&self.fd, into) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            result => result.map(Some),
        }
    }
}

impl Mirror {
    /// Reads the input, and sends as much as may be in transit.
    pub(super) fn pump_input(&mut self) {
        while let Some(action) = self.next_input_action() {
            let is_sent = match action {
                InputAction::RecordLoss { arrived_bytes } => {
                    let at = clock::monotonic_now().max(self.task.state().last_event_at);
                    let event = RemoteEvent::InputLost { at, arrived_bytes: Some(arrived_bytes) };
                    self.record(vec![Record::Remote(event)]);
                    true
                }
                InputAction::Send { at, bytes } => {
                    let request = RemoteRequest::Input { at, bytes: bytes.len() };
                    self.send(&request, &bytes)
                }
                InputAction::SendEnd { at } => self.send(&RemoteRequest::InputEnd { at }, &[]),
            };
            if !is_sent {
                self.on_broken("ssh does not read the input");
            }
        }
    }

    fn next_input_action(&mut self) -> Option<InputAction> {
        let input = self.input.as_mut()?;
        input.read();
        input.sender.next_action()
    }

    /// Handles the position of the remote machine.
    pub(super) fn on_input_position(&mut self, position: InputPosition) {
        let max_bytes = self.connection.max_sent_input();
        if let Some(input) = &mut self.input {
            input.sender.on_position(position, max_bytes);
            input.close_if_unread();
        }
    }

    /// Handles the end of the connection: the bytes that were not accepted are sent again.
    pub(super) fn on_input_disconnected(&mut self) {
        if let Some(input) = &mut self.input {
            input.sender.on_disconnected();
        }
    }

    /// Closes the input for `siding input --eof`. Returns false if it is not an open FIFO.
    pub(super) fn close_input(&mut self) -> bool {
        self.input.as_mut().and_then(|input| input.keepalive.take()).is_some()
    }

    /// Passes on that a client wrote to the input or closed it, which the remote shim records with
    /// the name of the client. The bytes do not depend on this message.
    pub(super) fn notify_input(&mut self, by: Option<String>) {
        let action = self.machine.forward(ShimRequest::InputWritten { by });
        self.carry_out(action.into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use siding_core::sys::pipe;
    use siding_model::remote::RemoteInputState;

    use super::*;

    fn opened(mode: StdinMode, inherited: Option<OwnedFd>, dir: BorrowedFd<'_>) -> MirrorInput {
        let input = MirrorInput::create(mode, inherited, dir).expect("created");
        let mut input = input.expect("the input is not empty");
        let position = InputPosition { bytes: 0, state: RemoteInputState::Open };
        input.sender.on_position(position, 1 << 20);
        input
    }

    #[test]
    fn a_pipe_is_read_until_its_end_and_a_file_from_its_offset() {
        let directory = tempfile::tempdir().expect("a directory");
        let dir = std::fs::File::open(directory.path()).expect("it is there");
        let (read, write) = pipe::create_pipe().expect("a pipe");
        file::set_blocking(&read).expect("a pipe");
        let mut input = opened(StdinMode::Inherit, Some(read), dir.as_fd());
        input.read();
        assert_eq!(input.sender.next_action(), None, "a read does not wait");
        file::write(&write, b"text").expect("an empty pipe has space");
        drop(write);
        input.read();
        let text = InputAction::Send { at: 0, bytes: b"text".to_vec() };
        assert_eq!(input.sender.next_action(), Some(text));
        assert_eq!(input.sender.next_action(), Some(InputAction::SendEnd { at: 4 }));

        let path = directory.path().join("file");
        std::fs::write(&path, "skipped rest").expect("written");
        let source = std::fs::File::open(&path).expect("it is there");
        let mut skipped = [0; 8];
        assert_eq!(file::read(&source, &mut skipped).expect("a file"), 8);
        let mut input = opened(StdinMode::Inherit, Some(source.into()), dir.as_fd());
        input.read();
        let rest = InputAction::Send { at: 0, bytes: b"rest".to_vec() };
        assert_eq!(input.sender.next_action(), Some(rest));
    }

    #[test]
    fn writers_of_an_input_that_is_not_read_fail() {
        let directory = tempfile::tempdir().expect("a directory");
        let dir = std::fs::File::open(directory.path()).expect("it is there");
        let mut input = opened(StdinMode::Pipe, None, dir.as_fd());
        let open = || file::open_at(dir.as_fd(), INPUT_FIFO, file::OpenMode::FifoWrite);
        let writer = open().expect("the mirror reads");
        input
            .sender
            .on_position(InputPosition { bytes: 0, state: RemoteInputState::Closed }, 1 << 20);
        input.close_if_unread();
        let error = file::write(&writer, b"x").expect_err("it is closed");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        assert!(open().is_err());
    }
}

//! The standard input of a mirror's task: reads the bytes of the caller or of `siding input`, and
//! sends them to the remote machine.

use std::io::{self, ErrorKind, IsTerminal as _};
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
    /// `None` after the end of the input, or after the remote task has closed its input.
    source: Option<InputSource>,
    /// The mirror's write end of the FIFO, which keeps the input open for `siding input`; `None` if
    /// the input is not a FIFO, or a client has closed it.
    keepalive: Option<OwnedFd>,
}

/// The descriptor that the mirror reads.
#[derive(Debug)]
struct InputSource {
    fd: OwnedFd,
    read_mode: ReadMode,
}

/// The method that reads a source without waiting. poll(2) alone is not enough for a source that
/// other processes also read: one of them may take the bytes first. A mirror that then blocked in
/// the read would handle neither a stop nor a broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    /// The descriptor is non-blocking, and no other process shares its open file description.
    NonBlocking,
    /// recv(2) with `MSG_DONTWAIT`.
    Socket,
    /// read(2) after poll(2): for files, whose reads never block, and for sources that cannot be
    /// opened again.
    Polled,
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
            StdinMode::Null | StdinMode::Terminal => return Ok(None),
            StdinMode::Pipe => {
                file::create_fifo(dir, INPUT_FIFO)?;
                let fd = file::open_at(dir, INPUT_FIFO, file::OpenMode::Read)?;
                let write = file::open_at(dir, INPUT_FIFO, file::OpenMode::FifoWrite)?;
                (InputSource { fd, read_mode: ReadMode::NonBlocking }, Some(write))
            }
            StdinMode::Inherit => {
                let inherited = inherited.ok_or(ErrorKind::InvalidData)?;
                (InputSource::from_inherited(inherited), None)
            }
        };
        Ok(Some(Self { sender: InputSender::default(), source: Some(source), keepalive }))
    }

    /// Prepares the input for a mirror after a takeover: the killed mirror held the only descriptor
    /// of the source, and unsent bytes in its memory. The FIFO is removed, so that later writers
    /// fail. `is_loss_recorded`: whether an earlier takeover has recorded the loss.
    pub(super) fn take_over(
        mode: StdinMode,
        is_loss_recorded: bool,
        dir: BorrowedFd<'_>,
    ) -> Option<Self> {
        match mode {
            StdinMode::Null | StdinMode::Terminal => None,
            StdinMode::Pipe | StdinMode::Inherit => {
                let _already_removed = file::remove(dir, INPUT_FIFO);
                let sender = InputSender::without_source(is_loss_recorded);
                Some(Self { sender, source: None, keepalive: None })
            }
        }
    }

    /// Returns the descriptor to poll; `None` while the window is full or the source is closed.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        let source = self.source.as_ref().filter(|_| self.sender.free_bytes() > 0)?;
        Some(source.fd.as_fd())
    }

    /// Reads the available bytes, up to the free space in the window.
    fn read(&mut self) {
        while let Some(source) = &self.source {
            let mut buffer = vec![0; self.sender.free_bytes().min(MAX_INPUT_MESSAGE_BYTES)];
            // A read into an empty buffer would look like the end of the input.
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

    /// Closes the source if the remote task has closed its input: writers then fail with `EPIPE`.
    fn close_if_unread(&mut self) {
        if self.sender.is_closed() {
            self.source = None;
            self.keepalive = None;
        }
    }
}

impl InputSource {
    fn from_inherited(fd: OwnedFd) -> Self {
        let raw = fd.as_raw_fd();
        let own_pid = procfs::self_pid_in_proc().unwrap_or_default();
        let kind = inspect_process::fd_target(own_pid, raw).map(|target| target.kind);
        if kind == Some(TargetKind::Socket) {
            return Self { fd, read_mode: ReadMode::Socket };
        }
        // O_NONBLOCK belongs to the open file description, which the caller shares, so a pipe or
        // terminal is opened again. A file is not opened again, because it would be read from its
        // start.
        if kind == Some(TargetKind::Fifo) || fd.is_terminal() {
            let path = format!("/proc/self/fd/{raw}");
            // `/dev/tty` itself cannot be opened, because the mirror has no controlling terminal.
            if let Ok(own) = file::open_followed(Path::new(&path), false) {
                return Self { fd: own, read_mode: ReadMode::NonBlocking };
            }
        }
        Self { fd, read_mode: ReadMode::Polled }
    }

    /// Reads without waiting. Returns `None` if no bytes have arrived.
    fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let result = match self.read_mode {
            ReadMode::Polled if !poll::is_readable(self.fd.as_fd()) => return Ok(None),
            ReadMode::NonBlocking | ReadMode::Polled => file::read(&self.fd, into),
            ReadMode::Socket => file::read_socket(&self.fd, into),
        };
        match result {
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
    /// Reads the input and sends it, up to the limit of bytes in transit.
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

    /// Handles the position up to which the remote machine has accepted input.
    pub(super) fn on_input_position(&mut self, position: InputPosition) {
        let max_bytes = self.connection.max_sent_input();
        if let Some(input) = &mut self.input {
            input.sender.on_position(position, max_bytes);
            input.close_if_unread();
        }
        // The end of the task may have arrived together with this position, and a loss must be
        // recorded before it.
        self.pump_input();
    }

    /// Handles the end of the connection: bytes that were not accepted must be sent again.
    pub(super) fn on_input_disconnected(&mut self) {
        if let Some(input) = &mut self.input {
            input.sender.on_disconnected();
        }
    }

    /// Closes the input for `siding input --eof`. Returns false if it is not an open FIFO.
    pub(super) fn close_input(&mut self) -> bool {
        self.input.as_mut().and_then(|input| input.keepalive.take()).is_some()
    }

    /// Reports to the remote shim that a client wrote to the input or closed it; the remote shim
    /// records this with the name of the client. The bytes do not depend on this message.
    pub(super) fn notify_input(&mut self, by: Option<String>) {
        let action = self.machine.forward(ShimRequest::InputWritten { by }, None);
        self.carry_out(action.into_iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

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
    fn a_socket_is_read_without_waiting() {
        let (mut writer, socket) = UnixStream::pair().expect("sockets");
        let source = InputSource::from_inherited(socket.into());
        assert_eq!(source.read_mode, ReadMode::Socket);
        let mut bytes = [0; 8];
        // The result of poll(2) is not enough: another process may have read the bytes since.
        assert_eq!(source.read(&mut bytes).expect("a socket"), None);
        writer.write_all(b"text").expect("a socket has space");
        assert_eq!(source.read(&mut bytes).expect("a socket"), Some(4));
        assert_eq!(&bytes[..4], b"text");
        drop(writer);
        assert_eq!(source.read(&mut bytes).expect("a socket"), Some(0));
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

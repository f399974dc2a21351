//! A pseudoterminal with a model of the screen contents that a person would see.

mod screen_model;

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::{Action, Winsize, tcflow, tcgetattr, tcsetwinsize};

use crate::POLL_DEADLINE;
use screen_model::ScreenModel;

/// A terminal, to which [`crate::Invocation::on_terminal`] connects a program under test.
#[derive(Debug)]
pub struct Terminal {
    /// The master side, through which the test sends keys and reads the program's output.
    master: OwnedFd,
    /// The slave side, which programs use.
    device: OwnedFd,
    screen: ScreenModel,
}

impl Terminal {
    /// Opens a pseudoterminal of this size, with an empty screen.
    ///
    /// # Panics
    ///
    /// When the system has no free pseudoterminal.
    pub fn new(columns: u16, rows: u16) -> Self {
        let (mut person, mut device) = (-1, -1);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both result pointers point to an int; name and settings are null; the size lives
        // until the call returns and is only read.
        let opened = unsafe {
            libc::openpty(
                &raw mut person,
                &raw mut device,
                std::ptr::null_mut(),
                std::ptr::null(),
                &raw const size,
            )
        };
        assert_eq!(opened, 0, "no terminal: {}", std::io::Error::last_os_error());
        // SAFETY: the call has opened both descriptors for this process, and no other value owns
        // them.
        let (person, device) =
            unsafe { (OwnedFd::from_raw_fd(person), OwnedFd::from_raw_fd(device)) };
        for end in [&person, &device] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)
                .expect("the descriptor is open");
        }
        Self { master: person, device, screen: ScreenModel::new(columns.into(), rows.into()) }
    }

    /// Duplicates the slave side for another standard stream.
    pub(crate) fn device_stdio(&self) -> Stdio {
        self.device.try_clone().expect("the limit leaves a free descriptor").into()
    }

    /// Returns the slave side, for tests that change or read the terminal's modes themselves.
    pub fn device_fd(&self) -> &OwnedFd {
        &self.device
    }

    /// Formats the terminal's modes (echo, signals, lines and so on) for comparison.
    ///
    /// # Panics
    ///
    /// When the terminal is closed.
    pub fn modes(&self) -> String {
        format!("{:?}", tcgetattr(&self.device).expect("the descriptor is a terminal"))
    }

    /// Sends key presses, given as the bytes that a terminal sends for these keys. Blocks while the
    /// terminal's input buffer is full because no program reads it.
    ///
    /// # Panics
    /// When the write fails.
    pub fn send_keys(&self, bytes: &str) {
        let mut rest = bytes.as_bytes();
        while !rest.is_empty() {
            let count = rustix::io::write(&self.master, rest).expect("the terminal takes keys");
            rest = &rest[count..];
        }
    }

    /// Resizes the terminal. The caller must send SIGWINCH to the program: the kernel sends it only
    /// to the foreground process group of a controlling terminal.
    ///
    /// # Panics
    ///
    /// When the terminal is closed.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.set_size(columns, rows);
        self.screen.resize(columns.into(), rows.into());
    }

    /// Resizes the terminal as [`Self::resize`] does, and wraps the rows that no longer fit, as most
    /// terminals do.
    ///
    /// # Panics
    ///
    /// When the terminal is closed.
    pub fn resize_and_rewrap(&mut self, columns: u16, rows: u16) {
        // The kernel reports the new size to the programs immediately. Their output must arrive
        // after the rows were wrapped, as in a terminal emulator.
        self.suspend_output();
        self.set_size(columns, rows);
        // The rows that were written for the previous size are wrapped, too.
        self.read_available(Duration::ZERO);
        self.screen.rewrap(columns.into());
        self.screen.resize(columns.into(), rows.into());
        self.resume_output();
    }

    fn set_size(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("a terminal has a size");
    }

    /// Suspends the output of the programs, as Ctrl-S does: a write blocks until
    /// [`Self::resume_output`]. A buffer that is merely full does not block writes for long: the
    /// kernel moves the bytes of a pseudoterminal in the background, so the buffer soon has room.
    ///
    /// # Panics
    ///
    /// When the terminal is closed.
    pub fn suspend_output(&self) {
        tcflow(&self.device, Action::OOff).expect("the descriptor is a terminal");
    }

    /// Resumes the output of the programs, as Ctrl-Q does.
    ///
    /// # Panics
    ///
    /// When the terminal is closed.
    pub fn resume_output(&self) {
        tcflow(&self.device, Action::OOn).expect("the descriptor is a terminal");
    }

    /// Closes the master side, as a terminal emulator does when its window is closed. From then on
    /// a program's writes to the slave side fail, and its reads fail or return the end of file.
    pub fn close(self) {
        drop(self.master);
    }

    /// Returns the visible rows, without trailing blanks.
    pub fn screen(&mut self) -> Vec<String> {
        self.read_available(Duration::ZERO);
        self.screen.visible_rows()
    }

    /// Returns whether the terminal shows the alternate screen, which has no scrollback.
    pub fn is_alternate_screen(&mut self) -> bool {
        self.read_available(Duration::ZERO);
        self.screen.is_alternate()
    }

    /// Waits until a program has copied a text to the clipboard. `base64` is this text in base64.
    ///
    /// # Panics
    /// When the text was not copied within [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_clipboard(&mut self, base64: &str) {
        self.wait_until("a text is copied", |shown| shown.clipboard() == Some(base64));
    }

    /// Waits until no row of the screen contains `part`.
    ///
    /// # Panics
    /// When a row still contains `part` after [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_until_gone(&mut self, part: &str) {
        self.wait_until(&format!("no row has {part:?}"), |shown| {
            !shown.visible_rows().iter().any(|row| row.contains(part))
        });
    }

    /// Waits until the title of the window satisfies a condition.
    ///
    /// # Panics
    /// When the title does not satisfy it within [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_title(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        self.wait_until(&format!("its title {what}"), |shown| holds(shown.title()));
    }

    /// Returns the addresses of the links shown so far.
    pub fn links(&mut self) -> Vec<String> {
        self.read_available(Duration::ZERO);
        self.screen.links().to_vec()
    }

    /// Returns the parameters of the color sequences received so far, such as `31`.
    pub fn colors(&mut self) -> Vec<String> {
        self.read_available(Duration::ZERO);
        self.screen.colors().to_vec()
    }

    /// Returns all rows shown so far: the rows that have scrolled off the screen, then the visible
    /// ones.
    pub fn scrollback_text(&mut self) -> String {
        self.read_available(Duration::ZERO);
        self.screen.scrollback_text()
    }

    /// Waits for the next output, and asserts that it is exactly these bytes. The screen model does
    /// not receive them, so use this only for bytes such as a bell that do not change the screen.
    ///
    /// # Panics
    ///
    /// When other bytes arrive, or none within [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_bytes(&mut self, expected: &[u8]) {
        let mut bytes = [0; 64];
        let patience = Timespec { tv_sec: POLL_DEADLINE.as_secs().cast_signed(), tv_nsec: 0 };
        let mut polled = [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::IN)];
        let ready = rustix::event::poll(&mut polled, Some(&patience));
        assert!(matches!(ready, Ok(1)), "{expected:?} did not arrive");
        let count =
            rustix::io::read(&self.master, &mut bytes).expect("reading the terminal succeeded");
        assert_eq!(&bytes[..count], expected);
    }

    /// Waits until `part` is visible or has scrolled off the screen.
    ///
    /// # Panics
    /// When `part` has not appeared within [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_text(&mut self, part: &str) {
        self.wait_until(&format!("it shows {part:?}"), |shown| {
            shown.scrollback_text().contains(part)
        });
    }

    /// Waits until a row of the screen contains `part`.
    ///
    /// # Panics
    /// When no row contains `part` within [`POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_row(&mut self, part: &str) {
        self.wait_until(&format!("a row has {part:?}"), |shown| {
            shown.visible_rows().iter().any(|row| row.contains(part))
        });
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, holds: impl Fn(&ScreenModel) -> bool) {
        let deadline = Instant::now() + POLL_DEADLINE;
        loop {
            if holds(&self.screen) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "timed out before {what}:\n{}", self.screen.scrollback_text());
            self.read_available(left.min(Duration::from_millis(100)));
        }
    }

    /// Reads the available bytes into the screen model, waiting up to `timeout` for the first of
    /// them.
    fn read_available(&mut self, timeout: Duration) {
        let mut wait = timeout;
        let mut bytes = [0; 4096];
        loop {
            let mut polled = [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: i64::try_from(wait.as_secs()).expect("a short time"),
                tv_nsec: wait.subsec_nanos().into(),
            };
            if !matches!(rustix::event::poll(&mut polled, Some(&timeout)), Ok(1)) {
                return;
            }
            match rustix::io::read(&self.master, &mut bytes) {
                Ok(count) if count > 0 => self.screen.feed(&bytes[..count]),
                _ => return,
            }
            wait = Duration::ZERO;
        }
    }
}

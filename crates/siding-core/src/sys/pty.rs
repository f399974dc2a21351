//! Pseudoterminals (pty(7)). siding holds the master of a task's terminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Winsize, tcgetattr, tcsetattr,
    tcsetwinsize,
};
use siding_model::signal::Signal;
use siding_model::terminal::TerminalSize;

use super::file;

/// A new pseudoterminal.
#[derive(Debug)]
pub struct Pty {
    /// siding's side, for reading the output of the programs and writing their input. Reads and
    /// writes do not block.
    pub master: OwnedFd,
    /// The programs' side. While any process has it open, a read of the master does not fail
    /// with `EIO`.
    pub slave: OwnedFd,
}

impl Pty {
    /// Creates a pseudoterminal of this size.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call: `ENOSPC` if the machine has no pseudoterminal left
    /// (`kernel.pty.max`), `ENOENT` without `/dev/ptmx`.
    pub fn open(size: TerminalSize) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let slave = open_slave(&master)?;
        let mut modes = tcgetattr(&slave)?;
        // With this flag, the erase key removes a whole multibyte character (termios(3)).
        modes.input_modes |= InputModes::IUTF8;
        // Without flow control, Ctrl-S is an ordinary key. With it, Ctrl-S would stop the output
        // until Ctrl-Q, as if the program were blocked.
        modes.input_modes -= InputModes::IXON;
        tcsetattr(&slave, OptionalActions::Now, &modes)?;
        resize(&master, size)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Self { master, slave })
    }
}

/// Opens the programs' side, without making it the controlling terminal of this process.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn open_slave(master: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    match ioctl_tiocgptpeer(&master, flags) {
        Ok(slave) => Ok(slave),
        // Linux before 4.13, and some sandboxes, do not support the request.
        Err(rustix::io::Errno::NOTTY | rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let path = ptsname(&master, Vec::new())?;
            let flags =
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
            Ok(rustix::fs::open(path, flags, rustix::fs::Mode::empty())?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sets the size. The kernel sends SIGWINCH to the foreground process group if the size changes.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn resize(master: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(master, size)?)
}

/// The line discipline's treatment of typed characters (termios(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoModes {
    /// Whether typed characters are echoed (`ECHO`).
    pub echoes: bool,
    /// Whether input is delivered in whole lines (`ICANON`).
    pub is_canonical: bool,
}

/// Returns the modes that the programs have set.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn echo_modes(terminal: impl AsFd) -> io::Result<EchoModes> {
    let modes = tcgetattr(terminal)?.local_modes;
    Ok(EchoModes {
        echoes: modes.contains(LocalModes::ECHO),
        is_canonical: modes.contains(LocalModes::ICANON),
    })
}

/// Returns the bytes of the keys that send a signal to the foreground process group of a terminal,
/// with their signals. None do while a program reads single keys (`ISIG`, termios(3)).
///
/// # Errors
///
/// The I/O error of the system call.
pub fn signal_keys(terminal: impl AsFd) -> io::Result<Vec<(u8, Signal)>> {
    /// The byte of a key that is turned off (`_POSIX_VDISABLE`).
    const DISABLED: u8 = 0;
    let modes = tcgetattr(terminal)?;
    if !modes.local_modes.contains(LocalModes::ISIG) {
        return Ok(Vec::new());
    }
    let keys = [(SpecialCodeIndex::VINTR, Signal::INT), (SpecialCodeIndex::VQUIT, Signal::QUIT)];
    let keys = keys.map(|(index, signal)| (modes.special_codes[index], signal));
    Ok(keys.into_iter().filter(|(key, _)| *key != DISABLED).collect())
}

/// Writes as many typed bytes as the terminal accepts without waiting. Returns their number, which
/// is 0 if programs have left too much input unread.
///
/// # Errors
///
/// The I/O error of the system call, `EIO` if no process has the terminal open.
pub fn write_input(master: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    match file::write(master, bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

/// Returns the number of typed bytes that no program has read; in canonical mode only those of
/// complete lines.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn unread_input(slave: impl AsFd) -> io::Result<u64> {
    // The kernel passes bytes that are written to the master to a worker thread, and `FIONREAD`
    // counts only those that the worker has delivered. A poll that finds no input first waits for
    // the worker (`n_tty_poll`).
    let _waits_for_worker = super::poll::is_readable(slave.as_fd());
    Ok(rustix::io::ioctl_fionread(slave)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_terminal_has_its_size_and_echoes_lines() {
        let size = TerminalSize { columns: 100, rows: 30 };
        let pty = Pty::open(size).expect("a pseudoterminal");
        assert_eq!(super::super::tty::size(&pty.slave), Some((100, 30)));
        let modes = echo_modes(&pty.master).expect("it is a terminal");
        assert_eq!(modes, EchoModes { echoes: true, is_canonical: true });
        assert_eq!(write_input(&pty.master, b"line\n").expect("accepted"), 5);
        assert!(super::super::poll::is_readable(pty.slave.as_fd()), "the line is complete");
        assert_eq!(unread_input(&pty.slave).expect("a number"), 5);
        let mut shown = [0; 16];
        let count = file::read(&pty.master, &mut shown).expect("the echo");
        assert_eq!(&shown[..count], b"line\r\n");
        let empty = file::read(&pty.master, &mut shown).expect_err("nothing is left");
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_keys_that_send_signals_are_those_of_the_terminal() {
        let pty = Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal");
        let keys = || signal_keys(&pty.master).expect("it is a terminal");
        assert_eq!(keys(), [(3, Signal::INT), (28, Signal::QUIT)]);
        let mut modes = tcgetattr(&pty.slave).expect("it is a terminal");
        modes.special_codes[SpecialCodeIndex::VQUIT] = 0;
        tcsetattr(&pty.slave, OptionalActions::Now, &modes).expect("it is a terminal");
        assert_eq!(keys(), [(3, Signal::INT)]);
        modes.make_raw();
        tcsetattr(&pty.slave, OptionalActions::Now, &modes).expect("it is a terminal");
        assert!(keys().is_empty());
    }

    /// Without the wait for the kernel's worker, most of the rounds would see no input.
    #[test]
    fn written_input_is_unread_immediately() {
        let Pty { master, slave } = Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal");
        for round in 0..1_000 {
            assert_eq!(write_input(&master, b"line\n").expect("accepted"), 5);
            assert_eq!(unread_input(&slave).expect("a number"), 5, "round {round}");
            assert_eq!(file::read(&slave, &mut [0; 16]).expect("the line"), 5);
            assert_eq!(unread_input(&slave).expect("a number"), 0, "round {round}");
            // The echo would fill the terminal.
            assert!(file::read(&master, &mut [0; 16]).expect("the echo") > 0);
        }
    }

    /// The terminal keeps written output as long as its master is open.
    #[test]
    fn output_survives_the_last_program() {
        let Pty { master, slave } = Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal");
        let mut output = vec![b'x'; 6_000];
        file::write(&slave, &output).expect("the kernel buffers more than that");
        drop(slave);
        let _slave = open_slave(&master).expect("the terminal still exists");
        let mut stored = 0;
        while let Ok(count) = file::read(&master, &mut output) {
            stored += count;
        }
        assert_eq!(stored, 6_000);
    }

    #[test]
    fn the_side_of_the_programs_can_be_opened_again() {
        let Pty { master, slave } = Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal");
        drop(slave);
        let slave = open_slave(&master).expect("the terminal still exists");
        file::write(&slave, b"again").expect("written");
        let mut shown = [0; 16];
        assert_eq!(file::read(&master, &mut shown).expect("the output"), 5);
    }
}

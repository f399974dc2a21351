//! Passes the attributes of a person's terminal (termios(3)) on to the terminal of a task, as
//! ssh(1) does.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};
use siding_model::terminal::TerminalAttributes;

/// A flag of a terminal.
#[derive(Clone, Copy)]
enum Flag {
    Input(InputModes),
    Output(OutputModes),
    Local(LocalModes),
}

/// The flags that are passed on, with their names in stty(1), and whether they are set in a new
/// terminal of a task. `ICANON` is missing: without it, another program reads single keys from the
/// person's terminal, and its flags are not those that the person has chosen.
const FLAGS: [(&str, Flag, bool); 21] = [
    ("inlcr", Flag::Input(InputModes::INLCR), false),
    ("igncr", Flag::Input(InputModes::IGNCR), false),
    ("icrnl", Flag::Input(InputModes::ICRNL), true),
    ("ixon", Flag::Input(InputModes::IXON), false),
    ("ixany", Flag::Input(InputModes::IXANY), false),
    ("ixoff", Flag::Input(InputModes::IXOFF), false),
    ("imaxbel", Flag::Input(InputModes::IMAXBEL), false),
    ("iutf8", Flag::Input(InputModes::IUTF8), true),
    ("opost", Flag::Output(OutputModes::OPOST), true),
    ("onlcr", Flag::Output(OutputModes::ONLCR), true),
    ("ocrnl", Flag::Output(OutputModes::OCRNL), false),
    ("isig", Flag::Local(LocalModes::ISIG), true),
    ("iexten", Flag::Local(LocalModes::IEXTEN), true),
    ("echoe", Flag::Local(LocalModes::ECHOE), true),
    ("echok", Flag::Local(LocalModes::ECHOK), true),
    ("echonl", Flag::Local(LocalModes::ECHONL), false),
    ("echoctl", Flag::Local(LocalModes::ECHOCTL), true),
    ("echoke", Flag::Local(LocalModes::ECHOKE), true),
    ("echoprt", Flag::Local(LocalModes::ECHOPRT), false),
    ("noflsh", Flag::Local(LocalModes::NOFLSH), false),
    ("tostop", Flag::Local(LocalModes::TOSTOP), false),
];

/// The special keys that are passed on, with their names in stty(1), and their bytes in a new
/// terminal of a task (`INIT_C_CC` in include/asm-generic/termios.h); 0 for a key that is turned
/// off.
const KEYS: [(&str, SpecialCodeIndex, u8); 14] = [
    ("intr", SpecialCodeIndex::VINTR, 0x03),
    ("quit", SpecialCodeIndex::VQUIT, 0x1c),
    ("erase", SpecialCodeIndex::VERASE, 0x7f),
    ("kill", SpecialCodeIndex::VKILL, 0x15),
    ("eof", SpecialCodeIndex::VEOF, 0x04),
    ("eol", SpecialCodeIndex::VEOL, 0),
    ("eol2", SpecialCodeIndex::VEOL2, 0),
    ("start", SpecialCodeIndex::VSTART, 0x11),
    ("stop", SpecialCodeIndex::VSTOP, 0x13),
    ("susp", SpecialCodeIndex::VSUSP, 0x1a),
    ("rprnt", SpecialCodeIndex::VREPRINT, 0x12),
    ("werase", SpecialCodeIndex::VWERASE, 0x17),
    ("lnext", SpecialCodeIndex::VLNEXT, 0x16),
    ("discard", SpecialCodeIndex::VDISCARD, 0x0f),
];

impl Flag {
    const fn is_set(self, modes: &Termios) -> bool {
        match self {
            Self::Input(flag) => modes.input_modes.contains(flag),
            Self::Output(flag) => modes.output_modes.contains(flag),
            Self::Local(flag) => modes.local_modes.contains(flag),
        }
    }

    fn set(self, modes: &mut Termios, is_set: bool) {
        match self {
            Self::Input(flag) => modes.input_modes.set(flag, is_set),
            Self::Output(flag) => modes.output_modes.set(flag, is_set),
            Self::Local(flag) => modes.local_modes.set(flag, is_set),
        }
    }
}

/// Returns the attributes in which a terminal differs from a new terminal of a task. `None` if
/// there are none, if the descriptor is not a terminal, or while a program reads single keys or a
/// secret from it. A terminal without echo would make every prompt of the task one for a secret.
#[must_use]
pub fn read(terminal: impl AsFd) -> Option<TerminalAttributes> {
    let modes = tcgetattr(terminal).ok()?;
    if !modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO) {
        return None;
    }
    let flags = FLAGS.into_iter().filter_map(|(name, flag, default)| {
        let is_set = flag.is_set(&modes);
        (is_set != default).then(|| (name.to_owned(), is_set))
    });
    let keys = KEYS.into_iter().filter_map(|(name, index, default)| {
        let key = modes.special_codes[index];
        (key != default).then(|| (name.to_owned(), key))
    });
    let attributes = TerminalAttributes { flags: flags.collect(), keys: keys.collect() };
    (!attributes.is_default()).then_some(attributes)
}

/// Sets the attributes of a terminal.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn apply(terminal: impl AsFd, attributes: &TerminalAttributes) -> io::Result<()> {
    let mut modes = tcgetattr(&terminal)?;
    for (name, flag, _) in FLAGS {
        if let Some(is_set) = attributes.flags.get(name) {
            flag.set(&mut modes, *is_set);
        }
    }
    for (name, index, _) in KEYS {
        if let Some(key) = attributes.keys.get(name) {
            modes.special_codes[index] = *key;
        }
    }
    Ok(tcsetattr(terminal, OptionalActions::Now, &modes)?)
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;

    use super::super::pty::Pty;
    use super::*;

    fn open_pty() -> Pty {
        Pty::open(TerminalSize::DEFAULT).expect("a pseudoterminal")
    }

    #[test]
    fn a_new_terminal_of_a_task_has_the_default_attributes() {
        assert_eq!(read(&open_pty().slave), None);
        assert_eq!(read(std::fs::File::open("/dev/null").expect("exists")), None);
    }

    #[test]
    fn all_attributes_are_passed_on() {
        let person = open_pty();
        let mut modes = tcgetattr(&person.slave).expect("a terminal");
        for (_, flag, default) in FLAGS {
            flag.set(&mut modes, !default);
        }
        for (number, (_, index, _)) in (0x41..).zip(KEYS) {
            modes.special_codes[index] = number;
        }
        tcsetattr(&person.slave, OptionalActions::Now, &modes).expect("a terminal");
        let attributes = read(&person.slave).expect("they differ");
        assert_eq!((attributes.flags.len(), attributes.keys.len()), (FLAGS.len(), KEYS.len()));
        let task = open_pty();
        apply(&task.slave, &attributes).expect("a terminal");
        assert_eq!(read(&task.slave), Some(attributes));
    }

    #[test]
    fn the_modes_of_a_program_that_reads_keys_are_not_passed_on() {
        let pty = open_pty();
        let mut modes = tcgetattr(&pty.slave).expect("a terminal");
        modes.make_raw();
        tcsetattr(&pty.slave, OptionalActions::Now, &modes).expect("a terminal");
        assert_eq!(read(&pty.slave), None);
    }
}

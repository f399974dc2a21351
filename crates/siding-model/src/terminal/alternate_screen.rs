//! The sequences that switch between the primary and the alternate screen of a terminal.
//!
//! The switches are those of siding's emulator, and of xterm ("DEC Private Mode Set (DECSET)" in
//! ctlseqs): the modes 47, 1047 and 1049, of which the last switch counts, and the full reset
//! (RIS). A soft reset (DECSTR) keeps the screen.

use super::query::parse_number;
use super::sequence::Sequence;

/// The private modes (DECSET) that show the alternate screen.
pub(crate) const ALTERNATE_SCREEN_MODES: [u16; 3] = [47, 1047, 1049];

/// Returns whether the alternate screen is shown after a sequence; `None` if the sequence does not
/// switch between the screens.
pub(super) fn find_screen_switch(sequence: Sequence<'_>) -> Option<bool> {
    match sequence {
        Sequence::Escape(b'c') => Some(false),
        Sequence::Csi { parameters, last: last @ (b'h' | b'l') } => {
            sets_alternate_screen_mode(parameters).then_some(last == b'h')
        }
        Sequence::Escape(_) | Sequence::Csi { .. } | Sequence::ControlString { .. } => None,
    }
}

/// Returns whether parameters of DECSET or DECRST name a mode that shows the alternate screen.
fn sets_alternate_screen_mode(parameters: &[u8]) -> bool {
    let Some(modes) = parameters.strip_prefix(b"?") else { return false };
    // A terminal ignores a sequence with another byte among its parameters.
    let is_valid = modes.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    let is_alternate = |mode: &[u8]| {
        // Of a parameter with subparameters, only the first number counts.
        let number = mode.split(|byte| *byte == b':').next().and_then(parse_number);
        number.is_some_and(|number| ALTERNATE_SCREEN_MODES.contains(&number))
    };
    is_valid && modes.split(|byte| *byte == b';').any(is_alternate)
}

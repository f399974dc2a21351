//! Clicks of the mouse, and the reports that a terminal sends for them (ctlseqs, "Mouse Tracking").

use super::key_names::KeyError;
use super::keys::InputModes;

/// The largest column or row, from 0, that the old form of reports can express.
const MAX_OLD_FORM_CELL: u16 = 222;
/// The words for clicks, each followed by a column and a row as in `click:12,5`.
const CLICK_WORDS: [(&str, MouseButton); 5] = [
    ("click:", MouseButton::Left),
    ("middle-click:", MouseButton::Middle),
    ("right-click:", MouseButton::Right),
    ("wheel-up:", MouseButton::WheelUp),
    ("wheel-down:", MouseButton::WheelDown),
];

/// Which events of the mouse a terminal reports to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MouseMode {
    /// None.
    #[default]
    Off,
    /// Presses and releases of buttons (mode 1000).
    Click,
    /// Also movements while a button is pressed (mode 1002).
    Drag,
    /// Also all other movements (mode 1003).
    Motion,
}

/// A click on a character cell, or one step of the wheel there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MouseClick {
    /// The button that is pressed and released.
    pub button: MouseButton,
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
}

/// A button of the mouse, or a direction of its wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseButton {
    /// The left button.
    Left,
    /// The middle button.
    Middle,
    /// The right button.
    Right,
    /// The wheel, turned away from the person.
    WheelUp,
    /// The wheel, turned towards the person.
    WheelDown,
}

impl MouseButton {
    /// Returns the number of the button in reports.
    const fn number(self) -> u8 {
        match self {
            Self::Left => 0,
            Self::Middle => 1,
            Self::Right => 2,
            Self::WheelUp => 64,
            Self::WheelDown => 65,
        }
    }

    /// Returns whether the terminal reports a release. A step of the wheel has none.
    const fn has_release(self) -> bool {
        match self {
            Self::Left | Self::Middle | Self::Right => true,
            Self::WheelUp | Self::WheelDown => false,
        }
    }
}

impl MouseClick {
    /// Returns the reports that a terminal in these modes sends.
    ///
    /// # Errors
    ///
    /// Returns [`KeyError::MouseOff`] if the program has not requested reports, and
    /// [`KeyError::CellTooFar`] if the old form of reports cannot express the cell.
    pub fn encode(self, modes: InputModes) -> Result<Vec<u8>, KeyError> {
        match modes.mouse {
            MouseMode::Off => return Err(KeyError::MouseOff),
            MouseMode::Click | MouseMode::Drag | MouseMode::Motion => {}
        }
        if modes.sgr_mouse {
            return Ok(self.sgr_reports());
        }
        match (old_form_cell(self.column), old_form_cell(self.row)) {
            (Some(column), Some(row)) => Ok(self.old_reports(column, row)),
            (Some(_) | None, _) => Err(KeyError::CellTooFar { column: self.column, row: self.row }),
        }
    }

    /// Returns the reports in the SGR form: `CSI < button ; column ; row M`, with `m` for the
    /// release.
    fn sgr_reports(self) -> Vec<u8> {
        let cell = format!("{};{}", u32::from(self.column) + 1, u32::from(self.row) + 1);
        let number = self.button.number();
        let mut reports = format!("\x1b[<{number};{cell}M");
        if self.button.has_release() {
            reports.push_str(&format!("\x1b[<{number};{cell}m"));
        }
        reports.into_bytes()
    }

    /// Returns the reports in the old form: `CSI M`, then button, column and row as bytes above 32.
    /// Every release has the button 3.
    fn old_reports(self, column: u8, row: u8) -> Vec<u8> {
        let mut reports = vec![0x1b, b'[', b'M', 32 + self.button.number(), column, row];
        if self.button.has_release() {
            reports.extend([0x1b, b'[', b'M', 32 + 3, column, row]);
        }
        reports
    }
}

/// Returns the byte for a column or row in the old form of reports, or `None` if it is too large.
fn old_form_cell(cell: u16) -> Option<u8> {
    (cell <= MAX_OLD_FORM_CELL).then(|| u8::try_from(cell + 33).ok()).flatten()
}

/// Parses a click, such as `click:12,5`: column 12 of row 5, both from 0. Returns `None` for a word
/// that does not start as a click, and for a sentence, which has a space after the colon.
pub(super) fn parse_click(word: &str) -> Option<Result<MouseClick, KeyError>> {
    let (button, cell) = CLICK_WORDS
        .iter()
        .find_map(|(prefix, button)| Some((*button, word.strip_prefix(*prefix)?)))?;
    // A text such as `click: here` is no click.
    if cell.is_empty() || cell.starts_with(char::is_whitespace) {
        return None;
    }
    let click = parse_cell(cell)
        .map(|(column, row)| MouseClick { button, column, row })
        .ok_or_else(|| KeyError::InvalidClick { word: word.to_owned() });
    Some(click)
}

fn parse_cell(cell: &str) -> Option<(u16, u16)> {
    let (column, row) = cell.split_once(',')?;
    Some((column.parse().ok()?, row.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(mouse: MouseMode, sgr_mouse: bool) -> InputModes {
        InputModes { mouse, sgr_mouse, ..InputModes::default() }
    }

    #[test]
    fn a_click_is_reported_in_the_form_that_the_program_requested() {
        let click = parse_click("click:12,5").unwrap().unwrap();
        assert_eq!(click, MouseClick { button: MouseButton::Left, column: 12, row: 5 });
        let sgr = click.encode(modes(MouseMode::Click, true)).unwrap();
        assert_eq!(sgr, b"\x1b[<0;13;6M\x1b[<0;13;6m");
        let old = click.encode(modes(MouseMode::Motion, false)).unwrap();
        assert_eq!(old, b"\x1b[M -&\x1b[M#-&");
        let wheel = parse_click("wheel-down:0,0").unwrap().unwrap();
        assert_eq!(wheel.encode(modes(MouseMode::Drag, true)).unwrap(), b"\x1b[<65;1;1M");
    }

    #[test]
    fn a_click_that_the_program_does_not_receive_is_an_error() {
        let click = MouseClick { button: MouseButton::Right, column: 223, row: 5 };
        assert_eq!(click.encode(modes(MouseMode::Off, true)), Err(KeyError::MouseOff));
        let too_far = click.encode(modes(MouseMode::Click, false));
        assert_eq!(too_far, Err(KeyError::CellTooFar { column: 223, row: 5 }));
        assert!(click.encode(modes(MouseMode::Click, true)).is_ok());
        let nearer = MouseClick { column: 222, ..click };
        assert_eq!(nearer.encode(modes(MouseMode::Click, false)).unwrap()[4], 255);
    }

    #[test]
    fn a_malformed_click_is_rejected_and_a_text_is_none() {
        for word in [
            "click:1",
            "click:1,",
            "click:1,2,3",
            "click:99999,1",
            "right-click:1;2",
            "click:foo",
            "wheel-up:-1,2",
        ] {
            assert!(parse_click(word).is_some_and(|click| click.is_err()), "{word}");
        }
        for word in ["click", "click:", "click: here", "doubleclick:1,2", "x"] {
            assert!(parse_click(word).is_none(), "{word}");
        }
    }
}

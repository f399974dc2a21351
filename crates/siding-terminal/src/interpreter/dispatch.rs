//! Calls the control function of each parsed sequence.

use vte::Params;

use super::{Interpreter, REPLACEMENT_STAND_IN};
use crate::charset::Charset;

/// Maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 256;

impl vte::Perform for Interpreter {
    fn print(&mut self, c: char) {
        self.printed_ascii = u8::try_from(c).ok().filter(u8::is_ascii);
        match c {
            '\0'..='\x1f' | '\x7f' => {}
            '\u{80}'..='\u{9f}' | '\u{fffd}' => self.draw(REPLACEMENT_STAND_IN),
            c => self.draw(self.control.translate(c)),
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            0x08 => {
                self.resolve_pending_wrap();
                self.queued.push('\x08');
            }
            b'\t' => self.move_by_tabs(1, super::ControlState::next_tab),
            b'\n' | 0x0b | 0x0c => self.line_feed(),
            b'\r' => self.queued.push('\r'),
            0x0e => self.control.is_shifted = true,
            0x0f => self.control.is_shifted = false,
            // The parser reports a stray byte of invalid UTF-8 as a control character.
            0x80.. => self.draw(REPLACEMENT_STAND_IN),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        match (intermediates, byte) {
            ([], b'7') => self.save_cursor(),
            ([], b'8') => self.restore_cursor(),
            ([], b'D') => self.line_feed(),
            ([], b'E') => {
                self.queued.push('\r');
                self.line_feed();
            }
            ([], b'H') => {
                let (_, column) = self.cursor();
                self.control.set_tab(column.min(self.size().columns - 1));
            }
            ([], b'M') => self.reverse_index(),
            ([], b'c') => self.hard_reset(),
            ([], b'=') => self.queued.push_str("\x1b="),
            ([], b'>') => self.queued.push_str("\x1b>"),
            ([b'('], byte) => self.control.charsets[0] = Charset::from_designator(byte),
            ([b')'], byte) => self.control.charsets[1] = Charset::from_designator(byte),
            ([b'#'], b'8') => self.fill_with_letters(),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _ignore: bool, action: char) {
        match (intermediates, action) {
            ([], 'm') => self.set_style(params),
            ([], 'h' | 'l') if params.iter().any(|param| param == [4]) => {
                self.control.insert_mode = action == 'h';
            }
            ([], _) => self.run_function(params, action),
            ([b'?'], 'h' | 'l') => {
                for param in params {
                    self.set_private_mode(param.first().copied().unwrap_or(0), action == 'h');
                }
            }
            ([b'?'], 'J' | 'K') => self.pass_on(params, action),
            ([b' '], 'q') => {
                self.queue(format_args!("\x1b[{} q", parameter(params, 0)));
            }
            ([b'!'], 'p') => self.soft_reset(),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _bell_terminated: bool) {
        if let [b"0" | b"2", title @ ..] = params {
            let title = title.join(&b';');
            let text = String::from_utf8_lossy(&title);
            let visible = text.chars().filter(|c| !c.is_control());
            self.control.title = visible.take(MAX_TITLE_CHARS).collect();
        }
    }
}

impl Interpreter {
    fn run_function(&mut self, params: &Params, action: char) {
        let first = parameter(params, 0);
        match action {
            '@' | 'C' | 'D' | 'G' | 'J'..='M' | 'P' | 'S' | 'X' => self.pass_on(params, action),
            '`' => self.pass_on(params, 'G'),
            'a' => self.pass_on(params, 'C'),
            'A' | 'B' | 'e' => {
                self.move_by_rows(first.max(1), action == 'A');
            }
            'E' | 'F' => {
                let row = self.move_by_rows(first.max(1), action == 'F');
                self.move_to(row, 0);
            }
            // With more parameters, the function tracks the mouse.
            'T' if params.len() <= 1 => self.pass_on(params, 'T'),
            'H' | 'f' => {
                let row = self.addressed_row(first);
                let last_column = self.size().columns - 1;
                self.move_to(row, (parameter(params, 1).max(1) - 1).min(last_column));
            }
            'd' => {
                self.resolve_pending_wrap();
                let row = self.addressed_row(first);
                self.queue(format_args!("\x1b[{}d", row + 1));
            }
            'I' => self.move_by_tabs(first.max(1), super::ControlState::next_tab),
            'Z' => self.move_by_tabs(first.max(1), super::ControlState::previous_tab),
            'b' => self.repeat_last(first.max(1)),
            'g' if first == 0 => {
                let (_, column) = self.cursor();
                self.control.clear_tab(column);
            }
            'g' if first == 3 => self.control.clear_tabs(),
            'r' => self.set_margins(first, parameter(params, 1)),
            's' => self.save_cursor(),
            'u' => self.restore_cursor(),
            _ => {}
        }
    }

    /// Passes a function with one parameter to vt100.
    fn pass_on(&mut self, params: &Params, action: char) {
        self.resolve_pending_wrap();
        self.queue(format_args!("\x1b[{}{action}", parameter(params, 0)));
    }

    fn set_private_mode(&mut self, mode: u16, is_on: bool) {
        let action = if is_on { 'h' } else { 'l' };
        match mode {
            1 | 9 | 25 | 1000 | 1002 | 1003 | 1005 | 1006 | 2004 => {
                self.queue(format_args!("\x1b[?{mode}{action}"));
            }
            6 => self.set_origin_mode(is_on),
            7 => {
                self.resolve_pending_wrap();
                self.control.stays_at_margin = !is_on;
            }
            66 => self.queued.push_str(if is_on { "\x1b=" } else { "\x1b>" }),
            47 => self.switch_screen(is_on),
            1047 => {
                if !is_on && self.is_alternate() {
                    self.queued.push_str("\x1b[2J");
                }
                self.switch_screen(is_on);
            }
            1048 if is_on => self.save_cursor(),
            1048 => self.restore_cursor(),
            1049 if is_on => {
                self.save_cursor();
                self.switch_screen(true);
                self.queued.push_str("\x1b[2J");
            }
            1049 => {
                self.switch_screen(false);
                self.restore_cursor();
            }
            _ => {}
        }
    }

    /// Passes colors and attributes to vt100, in the forms that vt100 supports.
    fn set_style(&mut self, params: &Params) {
        let mut numbers: Vec<String> = Vec::new();
        let mut rest = params.iter();
        while let Some(param) = rest.next() {
            match *param {
                [kind @ (38 | 48 | 58)] => {
                    let Some(color) = read_color(&mut rest) else { break };
                    if kind != 58 {
                        numbers.push(format!("{kind};{color}"));
                    }
                }
                [kind @ (38 | 48), 5, index] => numbers.push(format!("{kind};5;{}", byte(index))),
                [kind @ (38 | 48), 2, red, green, blue]
                | [kind @ (38 | 48), 2, _, red, green, blue, ..] => {
                    numbers.push(format!("{kind};{}", rgb([red, green, blue])));
                }
                // Underline styles other than a single line.
                [4, 0] => numbers.push("24".to_owned()),
                [4, _] | [21] => numbers.push("4".to_owned()),
                [number] => numbers.push(number.to_string()),
                _ => {}
            }
        }
        // Without parameters, the sequence would reset the style.
        if !numbers.is_empty() {
            self.queue(format_args!("\x1b[{}m", numbers.join(";")));
        }
    }
}

/// Returns the first number of a parameter, or 0 if it is missing.
fn parameter(params: &Params, index: usize) -> u16 {
    params.iter().nth(index).and_then(|param| param.first().copied()).unwrap_or(0)
}

/// Reads the parameters of a color after 38, 48 or 58; `None` if they are incomplete.
fn read_color<'p>(rest: &mut impl Iterator<Item = &'p [u16]>) -> Option<String> {
    let mut next = || rest.next().and_then(|param| param.first().copied());
    match next()? {
        5 => Some(format!("5;{}", byte(next()?))),
        2 => Some(rgb([next()?, next()?, next()?])),
        _ => None,
    }
}

fn rgb(amounts: [u16; 3]) -> String {
    let [red, green, blue] = amounts.map(byte);
    format!("2;{red};{green};{blue}")
}

fn byte(number: u16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

//! The names of keys, in tmux's spelling.
//!
//! As in tmux, a word that is not a key name is text. Unlike tmux, a word that resembles a key name
//! is an error: a misspelled `Enter` or `C-c` that is typed as text into a program may do harm. The
//! names are case-sensitive: a name in other letter case, such as `up`, is a misspelling as well.

use super::keys::{KeyCode, KeyInput, KeyModifiers, KeyPress, control_character};
use super::mouse::parse_click;

/// The names of keys. The first name of a key is the one that is displayed.
const KEY_NAMES: &[(&str, KeyCode)] = &[
    ("Enter", KeyCode::Enter),
    ("Escape", KeyCode::Escape),
    ("Tab", KeyCode::Tab),
    ("BTab", KeyCode::BackTab),
    ("Space", KeyCode::Char(' ')),
    ("BSpace", KeyCode::Backspace),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PageUp", KeyCode::PageUp),
    ("PPage", KeyCode::PageUp),
    ("PgUp", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
    ("NPage", KeyCode::PageDown),
    ("PgDn", KeyCode::PageDown),
    ("Insert", KeyCode::Insert),
    ("IC", KeyCode::Insert),
    ("Delete", KeyCode::Delete),
    ("DC", KeyCode::Delete),
    ("F1", KeyCode::Function(1)),
    ("F2", KeyCode::Function(2)),
    ("F3", KeyCode::Function(3)),
    ("F4", KeyCode::Function(4)),
    ("F5", KeyCode::Function(5)),
    ("F6", KeyCode::Function(6)),
    ("F7", KeyCode::Function(7)),
    ("F8", KeyCode::Function(8)),
    ("F9", KeyCode::Function(9)),
    ("F10", KeyCode::Function(10)),
    ("F11", KeyCode::Function(11)),
    ("F12", KeyCode::Function(12)),
    ("KPEnter", KeyCode::KeypadEnter),
];
/// The characters that name a key of the numeric keypad after `KP`.
const KEYPAD_CHARACTERS: &str = "0123456789+-*/.";
/// Names of keys in other programs and in documentation, in lower case.
const FOREIGN_NAMES: &[(&str, KeyCode)] = &[
    ("return", KeyCode::Enter),
    ("ret", KeyCode::Enter),
    ("esc", KeyCode::Escape),
    ("backtab", KeyCode::BackTab),
    ("spacebar", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("bksp", KeyCode::Backspace),
    ("uparrow", KeyCode::Up),
    ("downarrow", KeyCode::Down),
    ("leftarrow", KeyCode::Left),
    ("rightarrow", KeyCode::Right),
    ("arrowup", KeyCode::Up),
    ("arrowdown", KeyCode::Down),
    ("arrowleft", KeyCode::Left),
    ("arrowright", KeyCode::Right),
    ("page-up", KeyCode::PageUp),
    ("page_up", KeyCode::PageUp),
    ("page up", KeyCode::PageUp),
    ("page-down", KeyCode::PageDown),
    ("page_down", KeyCode::PageDown),
    ("page down", KeyCode::PageDown),
    ("pgdown", KeyCode::PageDown),
    ("ins", KeyCode::Insert),
    ("del", KeyCode::Delete),
];
/// Further names, in lower case. They count as keys only in brackets or with modifiers, because the
/// bare words could be text: `CR`, `NL` and `BS` are also codes of countries.
const MARKED_NAMES: &[(&str, KeyCode)] = &[
    ("cr", KeyCode::Enter),
    ("nl", KeyCode::Enter),
    ("lf", KeyCode::Enter),
    ("bs", KeyCode::Backspace),
    ("sp", KeyCode::Char(' ')),
];
/// Escape sequences of programming languages that the caller did not convert to characters, and the
/// keys that they denote.
const ESCAPED_CHARACTERS: &[(&str, &str)] = &[
    (r"\n", "Enter"),
    (r"\r", "Enter"),
    (r"\r\n", "Enter"),
    (r"\t", "Tab"),
    (r"\e", "Escape"),
    (r"\x1b", "Escape"),
    (r"\033", "Escape"),
    (r"\u001b", "Escape"),
    (r"\x03", "C-c"),
    (r"\u0003", "C-c"),
    (r"\x04", "C-d"),
    (r"\u0004", "C-d"),
];
/// Modifiers as other programs write them, before `-` or `+`.
const SPELLED_MODIFIERS: [&str; 8] =
    ["Ctrl", "Control", "Alt", "Meta", "Shift", "Option", "Cmd", "Super"];

/// The last function key that terminfo(5) knows.
const LAST_FUNCTION_KEY: u32 = 63;
/// Minimum length of a name for which a word with one different letter counts as a mistake.
const MIN_SIMILAR_NAME_BYTES: usize = 4;

const CONTROL: KeyModifiers = KeyModifiers { control: true, alt: false, shift: false };
const ALT: KeyModifiers = KeyModifiers { control: false, alt: true, shift: false };
const SHIFT: KeyModifiers = KeyModifiers { control: false, alt: false, shift: true };

/// The reason why a word is not typed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The word is empty.
    #[error("an empty word types nothing; write a key such as `Enter` or `C-c`, or a text")]
    Empty,
    /// The word is another program's spelling of a key.
    #[error("`{word}` is not a key name; write `{key}` for the key")]
    ForeignSpelling {
        /// The rejected word as it was passed, not escaped.
        word: String,
        /// The key in the spelling that is allowed.
        key: String,
    },
    /// The word has the form of a key with modifiers or of a function key, or is nearly the name of
    /// a key, but there is no such key.
    #[error("{}", unknown_key_text(.word, .nearest.as_deref()))]
    UnknownKey {
        /// The rejected word as it was passed, not escaped.
        word: String,
        /// The key with the most similar name, if one is similar.
        nearest: Option<String>,
    },
    /// A terminal has no separate code for the key with these modifiers.
    #[error("a terminal has no code for `{word}`; the nearest key is `{key}`")]
    NoCode {
        /// The rejected word as it was passed, not escaped.
        word: String,
        /// The nearest key that can be sent.
        key: String,
    },
    /// The word starts like a click, but names no cell.
    #[error("`{word}` is not a click; write a column and a row from 0, as in `click:12,5`")]
    InvalidClick {
        /// The rejected word as it was passed, not escaped.
        word: String,
    },
    /// The program has not requested reports of the mouse.
    #[error("the program does not use the mouse; use keys instead")]
    MouseOff,
    /// The program uses the old form of mouse reports, which is limited to 223 columns and rows.
    #[error(
        "the program cannot receive a click at `{column},{row}`, only at columns and rows up to 222"
    )]
    CellTooFar {
        /// Column of the cell, from 0.
        column: u16,
        /// Row of the cell, from 0.
        row: u16,
    },
}

fn unknown_key_text(word: &str, nearest: Option<&str>) -> String {
    let keys = match nearest {
        Some(key) => format!("the nearest key is `{key}`"),
        None => "keys are words such as `C-c`, `M-x`, `S-Tab`, `C-M-Up`, `Enter`, `F5`, one key \
                 for each word"
            .to_owned(),
    };
    format!("`{word}` is not a key; {keys}")
}

/// Parses a word: a key in tmux's spelling, such as `Enter`, `C-c`, `^C` or `C-M-Up`, a click such
/// as `click:12,5`, or otherwise a text. Names of keys are case-sensitive.
///
/// # Errors
///
/// Returns [`KeyError`] for an empty word, and for a word that resembles a key or a click but is
/// neither. [`KeyInput::Text`] types such a word as it is.
pub fn parse_key(word: &str) -> Result<KeyInput, KeyError> {
    if word.is_empty() {
        return Err(KeyError::Empty);
    }
    if let Some(click) = parse_click(word) {
        return click.map(KeyInput::Mouse);
    }
    if let Some(press) = parse_press(word) {
        return normalize_press(press).map(KeyInput::Key).map_err(|nearest| KeyError::NoCode {
            word: word.to_owned(),
            key: nearest.to_string(),
        });
    }
    if let Some(key) = suggest_key(word) {
        return Err(KeyError::ForeignSpelling { word: word.to_owned(), key });
    }
    let nearest = find_nearest_key(word);
    if nearest.is_some() || has_modifier_form(word) || function_number(word).is_some() {
        return Err(KeyError::UnknownKey { word: word.to_owned(), nearest });
    }
    Ok(KeyInput::Text(word.to_owned()))
}

/// Returns the displayed name of a key; `None` for the key of a character.
pub(super) fn code_name(code: KeyCode) -> Option<&'static str> {
    KEY_NAMES.iter().find(|(_, named)| *named == code).map(|(name, _)| *name)
}

/// Parses a key in the allowed spelling. Returns `None` for any other word, and for a single
/// character without modifiers, which is text.
fn parse_press(word: &str) -> Option<KeyPress> {
    if let Some(c) = caret_character(word) {
        return Some(KeyPress { code: KeyCode::Char(c), modifiers: CONTROL });
    }
    let (modifiers, name) = split_modifiers(word);
    let named = KEY_NAMES.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
    let code = named.or_else(|| parse_keypad_key(name)).or_else(|| {
        if modifiers.is_empty() { None } else { single_character(name).map(KeyCode::Char) }
    })?;
    Some(KeyPress { code, modifiers })
}

/// Splits all modifiers in tmux's spelling from the name of a key.
fn split_modifiers(word: &str) -> (KeyModifiers, &str) {
    let (mut modifiers, mut name) = (KeyModifiers::default(), word);
    while let Some((modifier, rest)) = split_modifier(name) {
        modifiers = join_modifiers(modifiers, modifier);
        name = rest;
    }
    (modifiers, name)
}

/// Splits a modifier in tmux's spelling from the name of a key.
fn split_modifier(name: &str) -> Option<(KeyModifiers, &str)> {
    let (modifier, rest) = match name.split_at_checked(2)? {
        ("C-", rest) => (CONTROL, rest),
        ("M-", rest) => (ALT, rest),
        ("S-", rest) => (SHIFT, rest),
        _ => return None,
    };
    (!rest.is_empty()).then_some((modifier, rest))
}

fn parse_keypad_key(name: &str) -> Option<KeyCode> {
    let c = single_character(name.strip_prefix("KP")?)?;
    KEYPAD_CHARACTERS.contains(c).then_some(KeyCode::Keypad(c))
}

fn single_character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

const fn join_modifiers(one: KeyModifiers, other: KeyModifiers) -> KeyModifiers {
    KeyModifiers {
        control: one.control || other.control,
        alt: one.alt || other.alt,
        shift: one.shift || other.shift,
    }
}

/// Returns the usual form of a key. If a terminal has no separate code for the key with these
/// modifiers, the error is the nearest key that has one.
fn normalize_press(press: KeyPress) -> Result<KeyPress, KeyPress> {
    let KeyModifiers { control, alt, shift } = press.modifiers;
    let only_alt = KeyModifiers { alt, ..KeyModifiers::default() };
    match press.code {
        KeyCode::Char(c) => normalize_character(c, press.modifiers),
        KeyCode::Tab if shift && !control => {
            Ok(KeyPress { code: KeyCode::BackTab, modifiers: only_alt })
        }
        KeyCode::Enter
        | KeyCode::Escape
        | KeyCode::Tab
        | KeyCode::BackTab
        | KeyCode::Keypad(_)
        | KeyCode::KeypadEnter => {
            let nearest = KeyPress { modifiers: only_alt, ..press };
            if control || shift { Err(nearest) } else { Ok(press) }
        }
        KeyCode::Backspace => {
            let nearest =
                KeyPress { modifiers: KeyModifiers { shift: false, ..press.modifiers }, ..press };
            if shift { Err(nearest) } else { Ok(press) }
        }
        KeyCode::Up
        | KeyCode::Down
        | KeyCode::Left
        | KeyCode::Right
        | KeyCode::Home
        | KeyCode::End
        | KeyCode::PageUp
        | KeyCode::PageDown
        | KeyCode::Insert
        | KeyCode::Delete
        | KeyCode::Function(_) => Ok(press),
    }
}

/// Returns the usual form of a character with modifiers, or the nearest key as in
/// [`normalize_press`]. Ctrl ignores the case of a letter, and Shift changes it.
fn normalize_character(c: char, modifiers: KeyModifiers) -> Result<KeyPress, KeyPress> {
    let KeyModifiers { control, alt, shift } = modifiers;
    let only_alt = KeyModifiers { alt, ..KeyModifiers::default() };
    if control && control_character(c).is_some() {
        let press = KeyPress {
            code: KeyCode::Char(c.to_ascii_lowercase()),
            modifiers: KeyModifiers { control, ..only_alt },
        };
        return if shift { Err(press) } else { Ok(press) };
    }
    let plain = KeyPress { code: KeyCode::Char(c), modifiers: only_alt };
    if shift && !control && c.is_ascii_alphabetic() {
        return Ok(KeyPress { code: KeyCode::Char(c.to_ascii_uppercase()), ..plain });
    }
    if control || shift { Err(plain) } else { Ok(plain) }
}

/// Returns the allowed spelling of a key that a word names in another spelling: `Ctrl-C`, `<Esc>`,
/// `Return`, `enter`, `\n`.
fn suggest_key(word: &str) -> Option<String> {
    let escaped = ESCAPED_CHARACTERS.iter().find(|(spelling, _)| *spelling == word);
    if let Some((_, key)) = escaped {
        return Some((*key).to_owned());
    }
    let (inner, is_bracketed) = strip_brackets(word);
    let mut modifiers = KeyModifiers::default();
    let mut name = inner;
    while let Some((modifier, rest)) = split_spelled_modifier(name, is_bracketed) {
        modifiers = join_modifiers(modifiers, modifier);
        name = rest;
    }
    let code = find_foreign_code(name, is_bracketed, !modifiers.is_empty())?;
    let press = normalize_press(KeyPress { code, modifiers });
    Some(press.unwrap_or_else(|nearest| nearest).to_string())
}

/// Returns the character in the notation `^C`, in lower case. tmux accepts this spelling as well.
fn caret_character(word: &str) -> Option<char> {
    let c = single_character(word.strip_prefix('^')?)?;
    let is_control = c.is_ascii_alphabetic() || "[\\]^_@?".contains(c);
    is_control.then(|| c.to_ascii_lowercase())
}

/// Removes one pair of brackets, and returns whether there was one.
fn strip_brackets(word: &str) -> (&str, bool) {
    let inner = [('<', '>'), ('{', '}'), ('[', ']')]
        .into_iter()
        .find_map(|(open, close)| word.strip_prefix(open)?.strip_suffix(close));
    inner.map_or((word, false), |inner| (inner, true))
}

/// Splits a modifier in the spelling of another program from the name of a key. A single letter is
/// a modifier only in brackets, in upper case before `-`, or as in [`is_letter_modifier`].
fn split_spelled_modifier(name: &str, is_bracketed: bool) -> Option<(KeyModifiers, &str)> {
    let end = name.find(['-', '+'])?;
    let (spelled, rest) = (&name[..end], &name[end + 1..]);
    let is_upper = spelled.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_letter_allowed = is_bracketed
        || (is_upper && name[end..].starts_with('-'))
        || is_letter_modifier(&name[..=end], rest);
    let modifier = match spelled.to_ascii_lowercase().as_str() {
        "ctrl" | "control" | "ctl" => CONTROL,
        "alt" | "meta" => ALT,
        "shift" => SHIFT,
        "c" if is_letter_allowed => CONTROL,
        "a" | "m" if is_letter_allowed => ALT,
        "s" if is_letter_allowed => SHIFT,
        _ => return None,
    };
    (!rest.is_empty()).then_some((modifier, rest))
}

/// Returns whether a letter and a separator are a modifier outside of brackets: `c-` for Ctrl and
/// `m-` for Alt, `C+` for Ctrl. Only a letter or the name of a key may follow, and only a small
/// letter after `C+`, because `a-z`, `c-1`, `a+b` and `C+B` are usually text.
fn is_letter_modifier(modifier: &str, rest: &str) -> bool {
    let is_name = || find_foreign_code(rest, false, false).is_some();
    match modifier {
        "c-" | "m-" => single_character(rest).map_or_else(is_name, |c| c.is_ascii_alphabetic()),
        "C+" => single_character(rest).map_or_else(is_name, |c| c.is_ascii_lowercase()),
        _ => false,
    }
}

/// Returns the key with this name in any letter case, in the allowed or another spelling.
fn find_foreign_code(name: &str, is_bracketed: bool, has_modifiers: bool) -> Option<KeyCode> {
    let is_marked = is_bracketed || has_modifiers;
    let lower = name.to_ascii_lowercase();
    let find = |names: &[(&str, KeyCode)]| {
        names.iter().find(|(known, _)| known.eq_ignore_ascii_case(&lower)).map(|(_, code)| *code)
    };
    // `dc` and `ic` are usually text; `f5` and `up` are keys.
    let is_known_form = is_marked || lower.len() > 2 || lower.starts_with('f') || lower == "up";
    let allowed = find(KEY_NAMES).filter(|_| is_known_form);
    allowed
        .or_else(|| find(FOREIGN_NAMES))
        .or_else(|| if is_marked { find(MARKED_NAMES) } else { None })
        .or_else(|| if has_modifiers { single_character(name).map(KeyCode::Char) } else { None })
}

/// Returns whether a word has the form of a key with modifiers: `X-key`, `Ctrl-key`, `Alt+key`, or
/// is a modifier without a key.
fn has_modifier_form(word: &str) -> bool {
    let is_letter_form =
        matches!(word.as_bytes(), [b'A'..=b'Z', b'-', _, ..] | [b'C' | b'M' | b'S', b'-']);
    is_letter_form
        || SPELLED_MODIFIERS.iter().any(|modifier| {
            word.strip_prefix(modifier)
                .is_some_and(|rest| rest.len() > 1 && rest.starts_with(['-', '+']))
        })
}

/// Returns the key that a word nearly names: a key whose name differs in one letter, or the
/// function key with modifiers that a terminal has instead of a function key above `F12`.
fn find_nearest_key(word: &str) -> Option<String> {
    let (given, name) = split_modifiers(word);
    let (code, added) = function_number(name).map_or_else(
        || find_similar_code(name).map(|code| (code, KeyModifiers::default())),
        shifted_function_key,
    )?;
    let press = normalize_press(KeyPress { code, modifiers: join_modifiers(given, added) });
    Some(press.unwrap_or_else(|nearest| nearest).to_string())
}

/// Returns the number in a word that has the form of a function key, such as `F13`.
fn function_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix('F')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Returns the key that sends what terminfo(5) calls `kf13` to `kf63` for xterm: F1 to F12 with
/// modifiers.
fn shifted_function_key(number: u32) -> Option<(KeyCode, KeyModifiers)> {
    let index = number.checked_sub(1)?;
    let modifiers = match index / 12 {
        1 => SHIFT,
        2 => CONTROL,
        3 => join_modifiers(CONTROL, SHIFT),
        4 => ALT,
        5 if number <= LAST_FUNCTION_KEY => join_modifiers(ALT, SHIFT),
        _ => return None,
    };
    Some((KeyCode::Function(u8::try_from(index % 12 + 1).ok()?), modifiers))
}

/// Returns the key whose name differs from a word in one letter, but not in the first one, which is
/// a capital letter. Short names are excluded, because ordinary words resemble them too often.
fn find_similar_code(word: &str) -> Option<KeyCode> {
    let is_similar = |name: &str| {
        name.len() >= MIN_SIMILAR_NAME_BYTES
            && name.bytes().next() == word.bytes().next()
            && differ_in_one_letter(name.as_bytes(), word.as_bytes())
    };
    KEY_NAMES.iter().find(|(name, _)| is_similar(name)).map(|(_, code)| *code)
}

/// Returns whether one letter was changed, added or left out, or two neighbors were exchanged.
fn differ_in_one_letter(one: &[u8], other: &[u8]) -> bool {
    let start = one.iter().zip(other).take_while(|(left, right)| left == right).count();
    match (&one[start..], &other[start..]) {
        ([_, left @ ..], [_, right @ ..]) if left == right => true,
        ([_, left @ ..], right) | (right, [_, left @ ..]) if left == right => true,
        ([a, b, left @ ..], [c, d, right @ ..]) => a == d && b == c && left == right,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::terminal::InputModes;

    #[test]
    fn a_word_that_is_no_key_is_text() {
        for word in [
            "x",
            "A",
            "-",
            "C",
            "X-",
            "ls -l",
            ":wq",
            "yes",
            "a+b",
            "a-z",
            "c-1",
            "c-file",
            "C+B",
            "c+d",
            "dc",
            "ü",
            "KP",
            "KPx",
            "F",
            "F1x",
            "f13",
            "Us",
            "And",
            "Some",
            "Entries",
            "entr",
            "<a>",
            "[]",
            "{}",
            "^",
            "^ab",
            "x-ray",
            "CC-c",
            "/f",
            "1-2",
            "print(\"Enter\")",
            "click: here",
            "re-enter",
            "next",
            "cr",
            "NL",
            "upper",
        ] {
            assert_eq!(parse_key(word), Ok(KeyInput::Text(word.to_owned())), "{word}");
        }
    }

    #[test]
    fn another_spelling_of_a_key_is_an_error_with_the_allowed_one() {
        for (word, key) in [
            ("Ctrl-C", "C-c"),
            ("Ctrl+C", "C-c"),
            ("ctrl-c", "C-c"),
            ("Control-c", "C-c"),
            ("ctrl+shift+t", "C-t"),
            ("Ctrl-Space", "C-Space"),
            ("PgDown", "PageDown"),
            ("<C-c>", "C-c"),
            ("<c-c>", "C-c"),
            ("<CR>", "Enter"),
            ("<Enter>", "Enter"),
            ("{Enter}", "Enter"),
            ("[esc]", "Escape"),
            ("Return", "Enter"),
            ("enter", "Enter"),
            ("ENTER", "Enter"),
            ("Esc", "Escape"),
            ("escape", "Escape"),
            ("Backspace", "BSpace"),
            ("ArrowUp", "Up"),
            ("Page_Up", "PageUp"),
            ("page-down", "PageDown"),
            ("Del", "Delete"),
            ("f5", "F5"),
            ("space", "Space"),
            ("up", "Up"),
            ("UP", "Up"),
            ("ret", "Enter"),
            ("c-c", "C-c"),
            ("c-D", "C-d"),
            ("m-x", "M-x"),
            ("c-up", "C-Up"),
            ("m-ret", "M-Enter"),
            ("C+c", "C-c"),
            ("C+Left", "C-Left"),
            ("A-x", "M-x"),
            ("Alt-x", "M-x"),
            ("Alt+Enter", "M-Enter"),
            ("Shift-Tab", "BTab"),
            ("Shift+Up", "S-Up"),
            ("C-up", "C-Up"),
            ("C-Return", "Enter"),
            (r"\n", "Enter"),
            (r"\x03", "C-c"),
        ] {
            let expected = KeyError::ForeignSpelling { word: word.to_owned(), key: key.to_owned() };
            assert_eq!(parse_key(word), Err(expected), "{word}");
        }
    }

    #[test]
    fn a_word_in_the_form_of_a_key_is_never_text() {
        for word in [
            "C-cc",
            "C-c Enter",
            "X-ray",
            "C-M-",
            "C-",
            "M-",
            "S-",
            "M-foo",
            "Ctrl-Break",
            "Cmd-q",
            "F0",
            "F64",
            "F100",
        ] {
            let expected = KeyError::UnknownKey { word: word.to_owned(), nearest: None };
            assert_eq!(parse_key(word), Err(expected), "{word}");
        }
        for (word, key) in [
            ("F13", "S-F1"),
            ("F24", "S-F12"),
            ("F25", "C-F1"),
            ("F48", "C-S-F12"),
            ("F49", "M-F1"),
            ("F63", "M-S-F3"),
            ("C-F13", "C-S-F1"),
            ("Entr", "Enter"),
            ("Entre", "Enter"),
            ("Enterr", "Enter"),
            ("Entet", "Enter"),
            ("Escpe", "Escape"),
            ("Dowm", "Down"),
            ("Down ", "Down"),
            ("C-Entr", "Enter"),
            ("C-Lefft", "C-Left"),
        ] {
            let nearest = Some(key.to_owned());
            let expected = KeyError::UnknownKey { word: word.to_owned(), nearest };
            assert_eq!(parse_key(word), Err(expected), "{word}");
        }
        for (word, key) in
            [("C-1", "1"), ("C-Enter", "Enter"), ("C-Tab", "Tab"), ("C-S-x", "C-x"), ("S-1", "1")]
        {
            let expected = KeyError::NoCode { word: word.to_owned(), key: key.to_owned() };
            assert_eq!(parse_key(word), Err(expected), "{word}");
        }
        assert_eq!(parse_key(""), Err(KeyError::Empty));
    }

    #[test]
    fn every_spelling_in_the_manual_of_tmux_is_a_key() {
        for (word, key) in [
            ("^C", "C-c"),
            ("^c", "C-c"),
            ("^[", "C-["),
            ("BTab", "BTab"),
            ("DC", "Delete"),
            ("IC", "Insert"),
            ("NPage", "PageDown"),
            ("PgDn", "PageDown"),
            ("PPage", "PageUp"),
            ("PgUp", "PageUp"),
        ] {
            let Ok(KeyInput::Key(press)) = parse_key(word) else { panic!("{word} is no key") };
            assert_eq!(press.to_string(), key, "{word}");
        }
    }

    fn any_word() -> impl Strategy<Value = String> {
        let parts = vec![
            "C-", "M-", "S-", "A-", "Ctrl+", "shift-", "<", ">", "^", "KP", "Up", "enter", "Esc",
            "Entr", "F13", "F6", "x", "X", "-", "+", "1", " ", "ü", "\u{1b}", "click:", "1,2",
            "\\n",
        ];
        let from_parts = prop::collection::vec(prop::sample::select(parts), 0..5)
            .prop_map(|parts| parts.concat());
        prop_oneof![from_parts, any::<String>()]
    }

    proptest! {
        #[test]
        fn each_named_key_is_sent_as_bytes(
            name in prop::sample::select(KEY_NAMES.to_vec()),
            modifiers in prop::sample::select(vec!["", "C-", "M-", "S-", "C-M-", "C-M-S-"]),
            is_application in any::<bool>(),
        ) {
            let modes = InputModes {
                application_cursor: is_application,
                application_keypad: is_application,
                ..InputModes::default()
            };
            match parse_key(&format!("{modifiers}{}", name.0)) {
                Ok(input) => prop_assert!(!input.encode(modes).unwrap().is_empty()),
                Err(error) => prop_assert!(matches!(error, KeyError::NoCode { .. }), "{}", error),
            }
        }

        /// The parser never panics, and parses the displayed form of each key as the same key.
        #[test]
        fn a_key_is_displayed_as_it_is_parsed(word in any_word()) {
            match parse_key(&word) {
                Ok(KeyInput::Key(press)) => {
                    let shown = press.to_string();
                    let is_text = single_character(&shown).is_some();
                    let expected =
                        if is_text { KeyInput::Text(shown.clone()) } else { KeyInput::Key(press) };
                    prop_assert_eq!(parse_key(&shown), Ok(expected));
                }
                Ok(KeyInput::Text(text)) => prop_assert_eq!(text, word),
                Ok(KeyInput::Mouse(_)) => {}
                Err(
                    KeyError::ForeignSpelling { key, .. }
                    | KeyError::NoCode { key, .. }
                    | KeyError::UnknownKey { nearest: Some(key), .. },
                ) => {
                    prop_assert!(parse_key(&key).is_ok(), "{}", key);
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}

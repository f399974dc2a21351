//! Expands braces: `a{b,c}d` and `{1..3}`.

use super::expand::{NONEMPTY_MARKER, UNKNOWN_MARKER};

/// Maximum number of words to which the braces of one word are expanded.
const MAX_WORDS: usize = 64;
/// Maximum number of braces that are expanded for one word. This limit bounds the time for a word
/// with many braces that yield one word each, which [`MAX_WORDS`] does not bound.
const MAX_EXPANDED_BRACES: usize = 256;
/// Maximum number of words of a sequence of numbers. A longer sequence becomes one unknown value.
const MAX_NUMBERS: u64 = 16;

/// The words to which the braces of a word expand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BraceExpansion {
    pub(super) words: Vec<String>,
    /// Whether braces were not expanded, because there are too many braces or words. A word ends
    /// with [`UNKNOWN_MARKER`] in place of such braces and of the text after them.
    pub(super) is_truncated: bool,
}

/// Braces that expand, as offsets in a word.
struct Braces {
    start: usize,
    end: usize,
    content: BraceContent,
}

enum BraceContent {
    /// The offsets of the commas.
    List(Vec<usize>),
    Sequence(Sequence),
}

/// The words between two bounds, such as `1..3`.
struct Sequence {
    first: i64,
    last: i64,
    step: u64,
    is_letters: bool,
    has_leading_zeros: bool,
}

/// Expands all braces of a word.
pub(super) fn expand_braces(text: &str) -> BraceExpansion {
    let mut expanded = BraceExpansion::default();
    let mut open = vec![text.to_owned()];
    let mut brace_count = 0;
    while let Some(text) = open.pop() {
        let Some(braces) = find_first_braces(&text) else {
            expanded.words.push(text);
            continue;
        };
        brace_count += 1;
        let (start, end) = (&text[..braces.start], &text[braces.end + 1..]);
        let room = MAX_WORDS.saturating_sub(open.len() + expanded.words.len());
        let words = braces.words(&text, room);
        if brace_count > MAX_EXPANDED_BRACES || words.is_empty() {
            expanded.is_truncated = true;
            expanded.words.push(format!("{start}{UNKNOWN_MARKER}"));
            continue;
        }
        open.extend(words.iter().rev().map(|word| format!("{start}{word}{end}")));
    }
    expanded
}

/// Returns the leftmost braces that have a comma or a sequence and are closed, or
/// `None` without such braces. Their content may have further braces.
fn find_first_braces(text: &str) -> Option<Braces> {
    let bytes = text.as_bytes();
    let mut open: Vec<(usize, Vec<usize>)> = vec![];
    let mut first: Option<Braces> = None;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' => open.push((at, vec![])),
            b',' => {
                if let Some((_, commas)) = open.last_mut() {
                    commas.push(at);
                }
            }
            b'}' => {
                let Some((start, commas)) = open.pop() else { continue };
                let is_parameter = start > 0 && bytes[start - 1] == b'$';
                let content = if is_parameter {
                    None
                } else if commas.is_empty() {
                    parse_sequence(&text[start + 1..at]).map(BraceContent::Sequence)
                } else {
                    Some(BraceContent::List(commas))
                };
                if let Some(content) = content
                    && first.as_ref().is_none_or(|first| start < first.start)
                {
                    first = Some(Braces { start, end: at, content });
                }
                if open.is_empty() && first.is_some() {
                    break;
                }
            }
            _ => {}
        }
    }
    first
}

impl Braces {
    /// Returns the words in these braces; none if there are more than `room`.
    fn words(&self, text: &str, room: usize) -> Vec<String> {
        match &self.content {
            BraceContent::List(commas) if commas.len() < room => {
                let mut from = self.start + 1;
                let ends = commas.iter().copied().chain([self.end]);
                ends.map(|to| {
                    let word = text[from..to].to_owned();
                    from = to + 1;
                    word
                })
                .collect()
            }
            BraceContent::List(_) => vec![],
            BraceContent::Sequence(sequence) => sequence.words(room),
        }
    }
}

fn parse_sequence(text: &str) -> Option<Sequence> {
    let bounds: Vec<&str> = text.splitn(4, "..").collect();
    let (first, last, step) = match bounds.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, step.parse::<i64>().ok()?.unsigned_abs().max(1)),
        _ => return None,
    };
    if let (Some(first), Some(last)) = (letter_code(first), letter_code(last)) {
        return Some(Sequence { first, last, step, is_letters: true, has_leading_zeros: false });
    }
    let has_leading_zeros = has_leading_zero(first) || has_leading_zero(last);
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    Some(Sequence { first, last, step, is_letters: false, has_leading_zeros })
}

fn letter_code(text: &str) -> Option<i64> {
    match text.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some(i64::from(*letter)),
        _ => None,
    }
}

fn has_leading_zero(number: &str) -> bool {
    let digits = number.trim_start_matches(['-', '+']);
    digits.len() > 1 && digits.starts_with('0')
}

impl Sequence {
    /// Returns the words of the sequence. Too many numbers become one unknown value, and so do
    /// numbers with leading zeros. For more than `room` letters, returns no words, because an
    /// unknown value could hide the name of a program or directory.
    fn words(&self, room: usize) -> Vec<String> {
        let room = u64::try_from(room).unwrap_or(u64::MAX);
        let count = (self.first.abs_diff(self.last) / self.step).saturating_add(1);
        if self.is_letters && count > room {
            return vec![];
        }
        let is_long = count > room.min(MAX_NUMBERS) || self.has_leading_zeros;
        if !self.is_letters && is_long {
            return vec![NONEMPTY_MARKER.to_string()];
        }
        let word = |index: u64| {
            let offset = index * self.step;
            let value = if self.first <= self.last {
                self.first.saturating_add_unsigned(offset)
            } else {
                self.first.saturating_sub_unsigned(offset)
            };
            match u8::try_from(value) {
                Ok(letter) if self.is_letters => char::from(letter).to_string(),
                Ok(_) | Err(_) => value.to_string(),
            }
        };
        (0..count).map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_words(text: &str, words: &[&str]) {
        let expanded = expand_braces(text);
        assert_eq!((expanded.words, expanded.is_truncated), (to_owned(words), false), "{text}");
    }

    fn to_owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn braces_expand_as_in_bash() {
        assert_words("a{b,c}d", &["abd", "acd"]);
        assert_words("/{bin,usr/{lib,share}}", &["/bin", "/usr/lib", "/usr/share"]);
        assert_words("{x}{a,b}", &["{x}a", "{x}b"]);
        assert_words("{a{b,c}", &["{ab", "{ac"]);
        assert_words("${x}{,.bak}", &["${x}", "${x}.bak"]);
        assert_words("{1..3}{a..b}", &["1a", "1b", "2a", "2b", "3a", "3b"]);
        assert_words("{3..-3..3}", &["3", "0", "-3"]);
        assert_words("{r..r}m", &["rm"]);
        assert_words("{a..}{}{1..2..x}", &["{a..}{}{1..2..x}"]);
    }

    #[test]
    fn long_sequences_become_unknown_values() {
        for text in
            ["/{1..1000000000}", "/{01..10}", "/{-9223372036854775808..9223372036854775807}"]
        {
            assert_words(text, &[&format!("/{NONEMPTY_MARKER}")]);
        }
        assert_words(&"{1..99}".repeat(200), &[&NONEMPTY_MARKER.to_string().repeat(200)]);
    }

    #[test]
    fn too_many_words_are_truncated() {
        for text in ["{,a}".repeat(60), "{a..z}".repeat(2), format!("{{{}}}", "a,".repeat(100))] {
            let expanded = expand_braces(&text);
            assert!(expanded.is_truncated && expanded.words.len() <= MAX_WORDS, "{expanded:?}");
            assert!(expanded.words.iter().any(|word| word.contains(UNKNOWN_MARKER)), "{text}");
        }
        assert!(expand_braces(&"{1..99}".repeat(2 * MAX_EXPANDED_BRACES)).is_truncated);
    }
}

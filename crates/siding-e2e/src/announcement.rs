//! The line format in which `puppet` announces its steps.
//!
//! ```text
//! puppet: VERB pid=NUMBER start=TICKS KEY=VALUE … text=FREE TEXT TO THE END
//! ```
//! Only the value of `text`, which is always the last key, may contain blanks. Line breaks and
//! backslashes in that value are escaped, so that each step is one line.

use std::collections::BTreeMap;

use crate::processes::Process;

const LINE_PREFIX: &str = "puppet: ";

/// A step that a puppet has executed, as its log or stdout announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Name of the step, usually the verb.
    pub verb: String,
    /// The process that executed the step.
    pub process: Process,
    /// All keys of the line except `pid` and `start`, with unescaped values.
    pub fields: BTreeMap<String, String>,
}

impl Announcement {
    /// Parses one line; `None` when it is not an announcement.
    pub fn parse(line: &str) -> Option<Self> {
        let (verb, mut rest) = line.strip_prefix(LINE_PREFIX)?.split_once(' ')?;
        let mut fields = BTreeMap::new();
        while let Some((key, after)) = rest.split_once('=') {
            let (value, next) = match key {
                "text" => (unescape(after), ""),
                _ => {
                    let (value, next) = after.split_once(' ').unwrap_or((after, ""));
                    (value.to_owned(), next)
                }
            };
            fields.insert(key.to_owned(), value);
            rest = next;
        }
        let pid = fields.remove("pid")?.parse().ok()?;
        let start = fields.remove("start")?.parse().ok()?;
        Some(Self { verb: verb.to_owned(), process: Process { pid, start }, fields })
    }

    /// Parses all announcements in a text, in order, and skips every other line.
    pub fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).collect()
    }

    /// Formats the line that announces one step, including the line break.
    pub fn render(verb: &str, process: Process, fields: &[(&str, String)]) -> String {
        let mut line = format!("{LINE_PREFIX}{verb} pid={} start={}", process.pid, process.start);
        for (key, value) in fields {
            let value = if *key == "text" { escape(value) } else { value.clone() };
            line.push_str(&format!(" {key}={value}"));
        }
        line.push('\n');
        line
    }

    /// Returns the value of `key`, parsed as a `T`.
    ///
    /// # Panics
    ///
    /// When the line has no such key, or its value is not of type `T`.
    #[track_caller]
    pub fn field<T: std::str::FromStr>(&self, key: &str) -> T {
        let Some(value) = self.fields.get(key) else {
            panic!("the announcement has no `{key}`: {self:?}");
        };
        match value.parse() {
            Ok(value) => value,
            Err(_) => panic!("`{key}` has an unexpected form in {self:?}"),
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_line_parses_back_to_the_same_step() {
        let process = Process { pid: 12, start: 99 };
        let fields = [("child", "13".to_owned()), ("text", "a=b \\ c\nd".to_owned())];
        let line = Announcement::render("fork", process, &fields);
        assert_eq!(line.matches('\n').count(), 1, "one step is one line: {line:?}");
        let read = Announcement::parse(line.trim_end()).expect("a rendered line parses");
        assert_eq!(read.process, process);
        assert_eq!(read.field::<u32>("child"), 13);
        assert_eq!(read.fields["text"], "a=b \\ c\nd");
    }

    #[test]
    fn lines_that_are_no_announcement_are_skipped() {
        assert_eq!(Announcement::parse_all("hello\npuppet: \npuppet: x pid=a start=1\n"), vec![]);
    }
}

//! Words to the fields that a program gets.

use super::output;
use super::variables::Variables;
use crate::ast::{Piece, Span, Statement, Word};

/// Stands in a field for what only the running shell knows, and which may be empty.
pub(crate) const ANY: char = '\u{E000}';
/// Stands for what is not known either but is something, and was made by the text itself.
pub(crate) const SURE: char = '\u{E001}';
/// Stands for the numbers of processes that were looked up by their names.
pub(crate) const FOUND: char = '\u{E002}';
/// Stands between the words of `"$@"` and `"${a[@]}"`, which stay apart in quotes.
pub(crate) const NEXT: char = '\u{E003}';

/// Bytes of a word that values are filled in up to; a longer one may be anything.
const VALUE_MAX: usize = 64 << 10;

/// Words that braces make of one at most.
const BRACES_MAX: usize = 64;

/// One word as a program gets it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    pub(crate) text: String,
    pub(crate) span: Span,
    /// Where it stands letter by letter in the judged text.
    pub(crate) at: Option<usize>,
    /// It is a process substitution: the programs in it, and what they write if that is known.
    pub(crate) process: Option<(Vec<String>, Option<String>)>,
    /// It, or a part of it, came from an unquoted `$(…)` or variable.
    pub(crate) was_split: bool,
    /// It is nothing but this variable, whose value the text does not say.
    pub(crate) variable: Option<String>,
}

/// Returns how many ways there are to choose the values of the variables in these words.
pub(crate) fn choices(words: &[Word], variables: &Variables) -> usize {
    let count = |piece: &Piece| match piece {
        Piece::Variable { name, .. } => variables.count(name),
        Piece::Text { .. }
        | Piece::Output { .. }
        | Piece::Process { .. }
        | Piece::Later { .. }
        | Piece::Unknown { .. } => 1,
    };
    words.iter().flat_map(|word| &word.pieces).map(count).max().unwrap_or(1)
}

/// Returns the fields of a word.
pub(crate) fn fields(word: &Word, variables: &Variables, choice: usize) -> Vec<Field> {
    let mut making = Making::new(word.span);
    making.separators = variables.separators();
    for piece in &word.pieces {
        making.piece(piece, variables, choice);
    }
    let mut fields = making.done();
    if word.has_braces {
        fields = fields.into_iter().flat_map(braces).collect();
    }
    fields
}

/// Returns the one field that an assignment or a heredoc makes of a word.
pub(crate) fn joined(word: &Word, variables: &Variables, choice: usize) -> Field {
    let mut making = Making::new(word.span);
    making.splits = false;
    for piece in &word.pieces {
        making.piece(piece, variables, choice);
    }
    making.done().pop().unwrap_or_else(|| Field { span: word.span, ..Field::default() })
}

struct Making {
    done: Vec<Field>,
    open: Field,
    /// Something was added, be it an empty string in quotes.
    has_open: bool,
    pieces: usize,
    splits: bool,
    /// What `IFS` is set to, if the text says so.
    separators: Option<String>,
}

impl Making {
    fn new(span: Span) -> Self {
        let open = Field { span, ..Field::default() };
        Self { done: vec![], open, has_open: false, pieces: 0, splits: true, separators: None }
    }

    fn piece(&mut self, piece: &Piece, variables: &Variables, choice: usize) {
        match piece {
            Piece::Text { text, at, .. } => {
                self.open.at = if self.pieces == 0 { *at } else { None };
                self.add(text);
            }
            Piece::Variable { name, default, is_required, is_quoted } => {
                let own = variables.get(name, choice);
                // What `${x:?…}` says instead is a message.
                let other = default.as_ref().filter(|_| !is_required);
                let value = own.or_else(|| other.map(|word| joined(word, variables, choice).text));
                self.open.variable = (self.pieces == 0 && value.is_none()).then(|| name.clone());
                let value = value.unwrap_or_else(|| ANY.to_string());
                let value = if *is_required { value.replace(ANY, "\u{E001}") } else { value };
                self.value(&value, *is_quoted);
            }
            Piece::Output { body, is_quoted } => {
                let value = output::of_body(body, variables).unwrap_or_else(|| ANY.to_string());
                self.value(value.trim_end_matches('\n'), *is_quoted);
            }
            Piece::Process { body } => {
                self.open.process = Some((programs(body), output::of_body(body, variables)));
                self.add("/dev/fd/63");
            }
            Piece::Later { .. } | Piece::Unknown { .. } => self.value(&ANY.to_string(), true),
        }
        self.pieces += 1;
    }

    fn add(&mut self, text: &str) {
        self.open.text.push_str(text);
        self.has_open = true;
    }

    /// Adds a value that the shell splits where it is not quoted.
    fn value(&mut self, value: &str, is_quoted: bool) {
        self.open.at = None;
        // `a=$a$a` doubles with each line.
        let is_short = self.open.text.len() + value.len() <= VALUE_MAX;
        let value = if is_short { value } else { "\u{E000}" };
        if !self.splits {
            self.add(&value.replace(NEXT, " "));
            return;
        }
        if is_quoted {
            let mut words = value.split(NEXT).peekable();
            while let Some(word) = words.next() {
                self.add(word);
                if words.peek().is_some() {
                    self.close();
                }
            }
            return;
        }
        self.open.was_split = true;
        let own = self.separators.take();
        let is_separator = |c: char| match &own {
            Some(own) => c == NEXT || own.contains(c),
            None => matches!(c, ' ' | '\t' | '\n' | NEXT),
        };
        if value.starts_with(is_separator) {
            self.close();
        }
        let mut parts = value.split(is_separator).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            self.add(part);
            self.open.was_split = true;
            if parts.peek().is_some() {
                self.close();
            }
        }
        if value.ends_with(is_separator) {
            self.close();
        }
        self.separators = own;
    }

    fn close(&mut self) {
        let span = self.open.span;
        if self.has_open {
            self.done.push(std::mem::take(&mut self.open));
        }
        self.open = Field { span, ..Field::default() };
        self.has_open = false;
    }

    fn done(mut self) -> Vec<Field> {
        if self.pieces > 1 {
            self.open.at = None;
            self.open.variable = None;
        }
        self.close();
        self.done
    }
}

/// Returns the names of the programs in a body, as far as they are fixed, also those in `<(…)`.
pub(crate) fn programs(body: &[Statement]) -> Vec<String> {
    let mut found = vec![];
    for statement in body {
        output::each_simple(statement, &mut |words| {
            if let Some(name) = words.first().and_then(Word::fixed) {
                found.push(base(&name).to_owned());
            }
            for piece in words.iter().flat_map(|word| &word.pieces) {
                if let Piece::Process { body } = piece {
                    found.extend(programs(body));
                }
            }
        });
    }
    found
}

/// Returns a program's name without its directories.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Multiplies `a{b,c}d`, as often as there are such braces and [`BRACES_MAX`] allows.
fn braces(field: Field) -> Vec<Field> {
    let mut open = vec![field.text.clone()];
    let mut done = vec![];
    while let Some(text) = open.pop() {
        let split = (open.len() + done.len() < BRACES_MAX).then(|| first_braces(&text)).flatten();
        match split {
            Some((start, parts, end)) => {
                open.extend(parts.iter().rev().map(|part| format!("{start}{part}{end}")));
            }
            None => done.push(text),
        }
    }
    done.into_iter().map(|text| Field { text, at: None, ..field.clone() }).collect()
}

/// Returns what stands before the first braces with a comma, their parts, and what stands behind.
fn first_braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let start =
        (0..bytes.len()).find(|at| bytes[*at] == b'{' && (*at == 0 || bytes[at - 1] != b'$'))?;
    let (mut depth, mut commas) = (0_usize, vec![]);
    for at in start..bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b',' if depth == 1 => commas.push(at),
            b'}' if depth == 1 => {
                if commas.is_empty() {
                    return None;
                }
                commas.push(at);
                let mut from = start + 1;
                let parts = commas.into_iter().map(|comma| {
                    let part = &text[from..comma];
                    from = comma + 1;
                    part
                });
                return Some((&text[..start], parts.collect(), &text[at + 1..]));
            }
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

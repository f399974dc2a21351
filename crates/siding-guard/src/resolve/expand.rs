//! Expands words into the fields that a program receives as arguments.

use super::braces::expand_braces;
use super::output;
use super::variables::Variables;
use crate::ast::{Piece, Span, Statement, Word};

/// Represents, in a field, a value that only the running shell knows and that may be empty.
pub(crate) const UNKNOWN_MARKER: char = '\u{E000}';
/// Represents, in a field, an unknown value that is not empty and that no other machine controls.
pub(crate) const NONEMPTY_MARKER: char = '\u{E001}';
/// Represents, in a field, process ids that were looked up by name.
pub(crate) const PID_LOOKUP_MARKER: char = '\u{E002}';
/// Separates the words of `"$@"` and `"${a[@]}"` in a value, because these words remain separate
/// arguments even in quotes.
pub(crate) const FIELD_SEPARATOR: char = '\u{E003}';

/// Maximum length of an expanded word, in bytes. A value that would make a word longer is treated
/// as unknown.
const MAX_FIELD_BYTES: usize = 64 << 10;

/// An argument as the program receives it, after expansion and without quotes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    pub(crate) text: String,
    pub(crate) span: Span,
    /// Offset of the field in the judged text, if the field occurs there verbatim.
    pub(crate) offset: Option<usize>,
    /// For a process substitution, the names of its programs, and the output of these programs if
    /// the text determines it.
    pub(crate) process_substitution: Option<(Vec<String>, Option<String>)>,
    /// Whether a part of the field is the value of an unquoted `$(…)` or variable.
    pub(crate) was_split: bool,
    /// The name of a variable with an unknown value, if the field consists only of this variable.
    pub(crate) variable: Option<String>,
    /// Whether the field has braces that were not expanded, because there are too many braces or
    /// words.
    pub(crate) has_unexpanded_braces: bool,
}

impl Field {
    /// Returns a field with a part of this field's text.
    pub(super) fn part(&self, text: &str) -> Self {
        Self { text: text.to_owned(), offset: None, ..self.clone() }
    }
}

/// Returns the maximum, over the variables in these words, of the number of possible values; 1 if
/// there are no variables. Each choice below this number selects one value for every variable.
pub(crate) fn count_choices(words: &[Word], variables: &Variables) -> usize {
    let count = |piece: &Piece| match piece {
        Piece::Variable { name, .. } => variables.count_values(name),
        Piece::Text { .. }
        | Piece::CommandSubstitution { .. }
        | Piece::ProcessSubstitution { .. }
        | Piece::Unparsed { .. }
        | Piece::Unknown { .. } => 1,
    };
    words.iter().flat_map(|word| &word.pieces).map(count).max().unwrap_or(1)
}

/// Returns the fields to which a word expands if the variables have the values that this choice
/// selects.
pub(crate) fn expand_fields(word: &Word, variables: &Variables, choice: usize) -> Vec<Field> {
    let mut builder = FieldBuilder::new(word.span);
    builder.separators = variables.field_separators();
    for piece in &word.pieces {
        builder.push_piece(piece, variables, choice);
    }
    let mut fields = builder.finish();
    if word.has_braces {
        fields = fields.into_iter().flat_map(expand_field_braces).collect();
    }
    fields
}

/// Returns the single field to which a word expands without word splitting, as in an assignment or
/// a heredoc.
pub(crate) fn expand_unsplit(word: &Word, variables: &Variables, choice: usize) -> Field {
    let mut builder = FieldBuilder::new(word.span);
    builder.splits_words = false;
    for piece in &word.pieces {
        builder.push_piece(piece, variables, choice);
    }
    builder.finish().pop().unwrap_or_else(|| Field { span: word.span, ..Field::default() })
}

struct FieldBuilder {
    finished: Vec<Field>,
    current: Field,
    /// Whether `current` has content. An empty quoted string counts as content.
    has_current: bool,
    piece_count: usize,
    splits_words: bool,
    /// The value of `IFS`, if the text sets it.
    separators: Option<String>,
}

impl FieldBuilder {
    fn new(span: Span) -> Self {
        let open = Field { span, ..Field::default() };
        Self {
            finished: vec![],
            current: open,
            has_current: false,
            piece_count: 0,
            splits_words: true,
            separators: None,
        }
    }

    fn push_piece(&mut self, piece: &Piece, variables: &Variables, choice: usize) {
        match piece {
            Piece::Text { text, offset: at, .. } => {
                self.current.offset = if self.piece_count == 0 { *at } else { None };
                self.push_text(text);
            }
            Piece::Variable { name, default, is_required, is_quoted } => {
                let known = variables.get(name, choice);
                // The word in `${x:?…}` is an error message, not a default value.
                let other = default.as_ref().filter(|_| !is_required);
                let value = known
                    .or_else(|| other.map(|word| expand_unsplit(word, variables, choice).text));
                self.current.variable =
                    (self.piece_count == 0 && value.is_none()).then(|| name.clone());
                let value = value.unwrap_or_else(|| UNKNOWN_MARKER.to_string());
                let value =
                    if *is_required { value.replace(UNKNOWN_MARKER, "\u{E001}") } else { value };
                self.push_value(&value, *is_quoted);
            }
            Piece::CommandSubstitution { body, is_quoted } => {
                let value = output::body_output(body, variables)
                    .unwrap_or_else(|| UNKNOWN_MARKER.to_string());
                self.push_value(value.trim_end_matches('\n'), *is_quoted);
            }
            Piece::ProcessSubstitution { body } => {
                self.current.process_substitution =
                    Some((program_names(body), output::body_output(body, variables)));
                self.push_text("/dev/fd/63");
            }
            Piece::Unparsed { .. } | Piece::Unknown { .. } => {
                self.push_value(&UNKNOWN_MARKER.to_string(), true)
            }
        }
        self.piece_count += 1;
    }

    fn push_text(&mut self, text: &str) {
        self.current.text.push_str(text);
        self.has_current = true;
    }

    /// Adds the value of an expansion. An unquoted value is split into fields.
    fn push_value(&mut self, value: &str, is_quoted: bool) {
        self.current.offset = None;
        // Each line such as `a=$a$a` doubles the length of the value, so the length is limited.
        let is_short = self.current.text.len() + value.len() <= MAX_FIELD_BYTES;
        let value = if is_short { value } else { "\u{E000}" };
        if !self.splits_words {
            self.push_text(&value.replace(FIELD_SEPARATOR, " "));
            return;
        }
        if is_quoted {
            let mut words = value.split(FIELD_SEPARATOR).peekable();
            while let Some(word) = words.next() {
                self.push_text(word);
                if words.peek().is_some() {
                    self.finish_field();
                }
            }
            return;
        }
        self.current.was_split = true;
        let separators = self.separators.take();
        let is_separator = |c: char| match &separators {
            Some(own) => c == FIELD_SEPARATOR || own.contains(c),
            None => matches!(c, ' ' | '\t' | '\n' | FIELD_SEPARATOR),
        };
        if value.starts_with(is_separator) {
            self.finish_field();
        }
        let mut parts = value.split(is_separator).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            self.push_text(part);
            self.current.was_split = true;
            if parts.peek().is_some() {
                self.finish_field();
            }
        }
        if value.ends_with(is_separator) {
            self.finish_field();
        }
        self.separators = separators;
    }

    fn finish_field(&mut self) {
        let span = self.current.span;
        if self.has_current {
            self.finished.push(std::mem::take(&mut self.current));
        }
        self.current = Field { span, ..Field::default() };
        self.has_current = false;
    }

    fn finish(mut self) -> Vec<Field> {
        if self.piece_count > 1 {
            self.current.offset = None;
            self.current.variable = None;
        }
        self.finish_field();
        self.finished
    }
}

/// Returns the names of the programs in a list of commands, including those in `<(…)`. Names that
/// only the running shell knows are omitted.
pub(crate) fn program_names(body: &[Statement]) -> Vec<String> {
    let mut found = vec![];
    for statement in body {
        output::for_each_simple(statement, &mut |words| {
            if let Some(name) = words.first().and_then(Word::static_text) {
                found.push(basename(&name).to_owned());
            }
            for piece in words.iter().flat_map(|word| &word.pieces) {
                if let Piece::ProcessSubstitution { body } = piece {
                    found.extend(program_names(body));
                }
            }
        });
    }
    found
}

/// Returns the last component of a program's path.
pub(crate) fn basename(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Expands the braces of a field.
fn expand_field_braces(field: Field) -> Vec<Field> {
    let expanded = expand_braces(&field.text);
    let has_unexpanded_braces = expanded.is_truncated;
    let words = expanded.words.into_iter();
    words.map(|text| Field { text, offset: None, has_unexpanded_braces, ..field.clone() }).collect()
}

//! What a shell text says, in the few shapes that a judgement needs.
//!
//! Owns the shapes. A compound command keeps which of its parts always run and which only may; what
//! only the running shell knows (the value of a variable, the output of a command) stays a piece of
//! its own in a word.

use std::rc::Rc;

use serde::Serialize;

use crate::parse::Origin;

/// A place in the judged text, in bytes; the end is the first byte behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// First byte behind it.
    pub end: usize,
}

impl Span {
    /// Returns the part of a text that it covers, as far as there is one.
    #[must_use]
    pub fn slice(self, text: &str) -> &str {
        let end = text.floor_char_boundary(self.end.min(text.len()));
        let start = text.floor_char_boundary(self.start.min(end));
        &text[start..end]
    }

    /// Returns the smallest place that covers both.
    pub(crate) fn join(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// One command of a list, with its redirections.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) node: Node,
    pub(crate) redirects: Vec<Redirect>,
    /// It ends in `&`.
    pub(crate) is_background: bool,
    pub(crate) span: Span,
}

/// What a command is.
#[derive(Debug)]
pub(crate) enum Node {
    /// A program, builtin or function with its arguments; without words only assignments.
    Simple { assignments: Vec<Assignment>, words: Vec<Word> },
    /// `export`, `local`, `declare` and the like.
    Declaration { assignments: Vec<Assignment>, words: Vec<Word> },
    /// Commands joined by `|`.
    Pipeline(Vec<Statement>),
    /// Commands joined by `&&` and `||`: all but the first only may run.
    Chain(Vec<Statement>),
    /// `{ …; }`, `( … )`, `time …`, `coproc …`.
    Group { body: Vec<Statement>, kind: GroupKind },
    /// `if` and `case`: the first part always runs, each of the others may.
    Branches { words: Vec<Word>, always: Vec<Statement>, maybe: Vec<Vec<Statement>> },
    /// A loop.
    Loop(Box<Loop>),
    /// A definition.
    Function { name: Option<String>, body: Rc<Statement> },
    /// `[[ … ]]`, `(( … ))`: nothing but words is in it.
    Expression(Vec<Word>),
    /// `break`, `exit`, `return`, `continue`.
    Jump(Vec<Word>),
}

/// What a group does to those in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// They run in this shell.
    CurrentShell,
    /// They run in a shell of their own.
    Subshell,
    /// They run beside this shell.
    Coprocess,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) kind: LoopKind,
    /// The variable of a `for`, and what it goes through.
    pub(crate) variable: Option<String>,
    pub(crate) words: Vec<Word>,
    pub(crate) condition: Vec<Statement>,
    pub(crate) body: Vec<Statement>,
}

/// How often a loop goes round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopKind {
    /// Once for each word, or by arithmetic.
    For,
    /// As long as, or until, its condition holds.
    Until,
    /// `for ((;;))`: without a condition.
    Endless,
    /// `select`: until a person ends it.
    Menu,
}

/// `NAME=VALUE`.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// `None` for an array, and for an element whose number has to be worked out.
    pub(crate) value: Option<Word>,
    /// Of an array.
    pub(crate) elements: Option<Vec<Word>>,
    /// Words in its subscript.
    pub(crate) words: Vec<Word>,
    pub(crate) is_append: bool,
}

/// A redirection.
#[derive(Debug)]
pub(crate) enum Redirect {
    /// `>`, `>>`, `&>` and `<>`.
    Writes { to: Word, is_append: bool },
    /// `<`.
    Reads(Word),
    /// A heredoc or a herestring on standard input.
    Heredoc(Word),
    /// `2>&1` and what only has words to look into.
    Other(Word),
}

/// A word.
#[derive(Debug, Default)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
    /// It has `{a,b}` that the shell multiplies.
    pub(crate) has_braces: bool,
    pub(crate) span: Span,
}

/// A piece of a word.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Characters, quotes and backslashes taken out.
    Text { text: String, offset: Option<usize> },
    /// `$NAME`, `${NAME:-…}`, `${NAME:?…}`, and without a name `${…:+…}`.
    Variable { name: String, default: Option<Word>, is_required: bool, is_quoted: bool },
    /// `$(…)`, `` `…` `` and `${ …; }`.
    CommandSubstitution { body: Vec<Statement>, is_quoted: bool },
    /// `<(…)` and `>(…)`.
    ProcessSubstitution { body: Vec<Statement> },
    /// The same as a text that is still to be read: what the parser passes over.
    Unparsed { text: String, origin: Origin },
    /// What only the running shell knows, and the words in it; a number where it is arithmetic.
    Unknown { words: Vec<Word>, is_arithmetic: bool },
}

impl Word {
    /// Whether there may be commands in it.
    pub(crate) fn may_run_commands(&self) -> bool {
        self.pieces.iter().any(|piece| {
            !matches!(piece, Piece::Text { .. } | Piece::Variable { default: None, .. })
        })
    }

    /// Returns the word as the shell makes it, when that is known before anything runs.
    pub(crate) fn static_text(&self) -> Option<String> {
        self.pieces.iter().try_fold(String::new(), |whole, piece| match piece {
            Piece::Text { text, .. } => Some(whole + text),
            Piece::Variable { .. }
            | Piece::CommandSubstitution { .. }
            | Piece::ProcessSubstitution { .. }
            | Piece::Unparsed { .. }
            | Piece::Unknown { .. } => None,
        })
    }
}

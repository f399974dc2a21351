//! The syntax tree of a shell text, reduced to the node types that the rules need.
//!
//! A node for a compound command distinguishes the parts that always run from those that may run. A
//! value that only the running shell knows (a variable, the output of a command) is a separate
//! [`Piece`] of its word.

mod origin;

use std::rc::Rc;

use serde::Serialize;

pub(crate) use origin::Origin;

/// A range of bytes in the judged text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Offset of the first byte of the range.
    pub start: usize,
    /// Offset of the byte after the last byte of the range.
    pub end: usize,
}

impl Span {
    /// Returns the part of `text` that the span covers. An offset outside of the text or inside a
    /// character is replaced by the nearest lower valid offset.
    #[must_use]
    pub fn slice(self, text: &str) -> &str {
        let end = text.floor_char_boundary(self.end.min(text.len()));
        let start = text.floor_char_boundary(self.start.min(end));
        &text[start..end]
    }

    /// Returns the smallest span that covers both spans.
    pub(crate) fn join(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A command of a list, with its redirections.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) node: Node,
    pub(crate) redirects: Vec<Redirect>,
    /// Whether the command ends in `&`.
    pub(crate) is_background: bool,
    pub(crate) span: Span,
}

/// The kinds of commands that the rules distinguish.
#[derive(Debug)]
pub(crate) enum Node {
    /// A program, builtin or function with its arguments. If there are no words, the assignments
    /// set variables of the shell.
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// A builtin that declares variables, such as `export`, `local` or `declare`.
    Declaration {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// Commands joined by `|`.
    Pipeline(Vec<Statement>),
    /// Commands joined by `&&` and `||`. The first command always runs; each later command may run.
    Chain(Vec<Statement>),
    /// `{ …; }`, `( … )`, `time …`, `coproc …`.
    Group {
        body: Vec<Statement>,
        kind: GroupKind,
    },
    /// `if` and `case`: `always` runs, and each of `maybe` may run.
    Branches {
        words: Vec<Word>,
        always: Vec<Statement>,
        maybe: Vec<Vec<Statement>>,
    },
    Loop(Box<Loop>),
    /// A function definition. The name is `None` if only the running shell knows the name.
    Function {
        name: Option<String>,
        body: Rc<Statement>,
    },
    /// `[[ … ]]` and `(( … ))`, which contain only words.
    Expression(Vec<Word>),
    /// `break`, `exit`, `return`, `continue`.
    Jump {
        words: Vec<Word>,
        /// Whether the innermost loop may end; false for a `continue` of this loop.
        leaves_loop: bool,
    },
}

/// The shell in which the commands of a group run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// The current shell, whose variables and directory the commands change.
    CurrentShell,
    /// A subshell, whose changes to variables and directory are lost.
    Subshell,
    /// A subshell that runs concurrently with the current shell.
    Coprocess,
}

/// A loop of any kind. If the kind does not have a part, the part is empty or `None`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) kind: LoopKind,
    /// The variable of a `for` or `select` loop, which receives the values of `words`.
    pub(crate) variable: Option<String>,
    pub(crate) words: Vec<Word>,
    pub(crate) condition: Vec<Statement>,
    pub(crate) body: Vec<Statement>,
}

/// The kind of a loop, distinguished by the condition under which the loop continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopKind {
    /// `for` with a list of words, or with arithmetic expressions that include a condition.
    For,
    /// `while`.
    While,
    /// `until`.
    Until,
    /// `for ((;;))`, which has no condition.
    Endless,
    /// `select`: until the user ends the menu.
    Menu,
}

/// `NAME=VALUE`.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// The assigned word; `None` for an array, and for an element with a computed index.
    pub(crate) value: Option<Word>,
    /// The elements in `NAME=(…)`; `None` for any other assignment.
    pub(crate) elements: Option<Vec<Word>>,
    /// The words in subscripts, which may contain commands.
    pub(crate) words: Vec<Word>,
    pub(crate) is_append: bool,
}

#[derive(Debug)]
pub(crate) enum Redirect {
    /// `>`, `>|`, `>>`, `&>`, `<>`, and `>&` with the name of a file.
    Writes { to: Word, is_append: bool },
    /// `<`.
    Reads(Word),
    /// A heredoc or a herestring on standard input.
    Heredoc(Word),
    /// `2>&1` and other redirections that open no file. The words of such a redirection may contain
    /// commands.
    Other(Word),
}

#[derive(Debug, Default)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
    /// Whether the word contains `{a,b}`, which the shell expands to several words.
    pub(crate) has_braces: bool,
    pub(crate) span: Span,
}

/// A part of a word: literal text, or one expansion.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Literal characters, without quotes and backslashes.
    Text { text: String, offset: Option<usize> },
    /// `$NAME`, `${NAME:-…}` or `${NAME:?…}`; the name is empty for `${…:+…}`.
    Variable { name: String, default: Option<Word>, is_required: bool, is_quoted: bool },
    /// `$(…)`, `` `…` `` and `${ …; }`.
    CommandSubstitution { body: Vec<Statement>, is_quoted: bool },
    /// `<(…)` and `>(…)`.
    ProcessSubstitution { body: Vec<Statement> },
    /// A text that may contain commands. The parser crate returns it unparsed, so it is parsed
    /// later.
    Unparsed { text: String, origin: Origin },
    /// A value that only the running shell knows. `words` are the words inside the expansion, which
    /// may contain commands. If `is_arithmetic` is set, the value is a number.
    Unknown { words: Vec<Word>, is_arithmetic: bool },
}

impl Word {
    /// Returns whether an expansion in the word may contain commands.
    pub(crate) fn may_run_commands(&self) -> bool {
        self.pieces.iter().any(|piece| {
            !matches!(piece, Piece::Text { .. } | Piece::Variable { default: None, .. })
        })
    }

    /// Returns the text of the word, in which braces are not expanded. Returns `None` if the word
    /// contains another expansion.
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

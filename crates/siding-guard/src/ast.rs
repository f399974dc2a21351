//! The syntax tree of a shell text, reduced to the few node types that the rules need.
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
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the part of a text that the span covers. Offsets outside of the text or inside a
    /// character are moved to the nearest lower valid offset.
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
    /// A program, builtin or function with its arguments. Without words, the assignments set
    /// variables of the shell.
    Simple {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// `export`, `local`, `declare` and the like.
    Declaration {
        assignments: Vec<Assignment>,
        words: Vec<Word>,
    },
    /// Commands joined by `|`.
    Pipeline(Vec<Statement>),
    /// Commands joined by `&&` and `||`: the first always runs, each later one may run.
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
    /// A function definition; the name is `None` if only the running shell knows it.
    Function {
        name: Option<String>,
        body: Rc<Statement>,
    },
    /// `[[ … ]]` and `(( … ))`, which contain only words.
    Expression(Vec<Word>),
    /// `break`, `exit`, `return`, `continue`.
    Jump(Vec<Word>),
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

/// A loop of any kind; a part that the kind does not have is empty or `None`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) kind: LoopKind,
    /// The variable of a `for` loop; `words` are its values.
    pub(crate) variable: Option<String>,
    pub(crate) words: Vec<Word>,
    pub(crate) condition: Vec<Statement>,
    pub(crate) body: Vec<Statement>,
}

/// The kind of a loop, by the condition under which it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopKind {
    /// `for`: once for each word, or with arithmetic expressions.
    For,
    /// `while` and `until`.
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
    /// The elements, for `NAME=(…)`.
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
    /// `2>&1` and other redirections that reach no file. The words of such a redirection may
    /// contain commands.
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
    /// `$NAME`, `${NAME:-…}`, `${NAME:?…}`, and without a name `${…:+…}`.
    Variable { name: String, default: Option<Word>, is_required: bool, is_quoted: bool },
    /// `$(…)`, `` `…` `` and `${ …; }`.
    CommandSubstitution { body: Vec<Statement>, is_quoted: bool },
    /// `<(…)` and `>(…)`.
    ProcessSubstitution { body: Vec<Statement> },
    /// A text with command substitutions that the parser crate returns unparsed, so that it has to
    /// be parsed later.
    Unparsed { text: String, origin: Origin },
    /// A value that only the running shell knows. `words` are the words inside the expansion, which
    /// may contain commands. The value of an arithmetic expansion is a number.
    Unknown { words: Vec<Word>, is_arithmetic: bool },
}

impl Word {
    /// Returns whether the word may contain commands.
    pub(crate) fn may_run_commands(&self) -> bool {
        self.pieces.iter().any(|piece| {
            !matches!(piece, Piece::Text { .. } | Piece::Variable { default: None, .. })
        })
    }

    /// Returns the text of a word without expansions; `None` for any other word.
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

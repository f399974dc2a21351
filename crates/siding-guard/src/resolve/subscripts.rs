//! Finds commands in texts that bash expands a second time: subscripts in quoted words, and the
//! values of prompt variables.
//!
//! `test -v 'a[$(x)]'` runs `x`, because a builtin that accepts the name of an array element
//! evaluates the subscript. An arithmetic expression also evaluates subscripts in the values of its
//! variables.

use super::expand::Field;
use super::walk::{ExecContext, Walker};
use crate::ast::{Origin, Piece, Span, Word};

/// Variables that contain a prompt, which a shell expands before it prints the prompt.
const PROMPT_VARIABLES: &[&str] = &["PROMPT", "PS0", "PS1", "PS2", "PS3", "PS4", "RPROMPT"];

impl Walker {
    /// Queues the commands in subscripts of arguments that a builtin may interpret as names of
    /// array elements.
    pub(super) fn queue_field_subscripts(&mut self, fields: &[Field]) {
        for field in fields {
            self.queue_subscript(&field.text, field.span);
        }
    }

    /// Queues the commands in subscripts of unexpanded words that may be names of array elements.
    pub(super) fn queue_word_subscripts(&mut self, words: &[Word]) {
        for word in words {
            for piece in &word.pieces {
                if let Piece::Text { text, .. } = piece {
                    self.queue_subscript(text, word.span);
                }
            }
        }
    }

    /// Queues the commands in the value of a variable: in a subscript, or anywhere if the value is
    /// expanded again.
    pub(super) fn queue_value_subscripts(&mut self, name: &str, value: &str, span: Span) {
        if self.expands_values || PROMPT_VARIABLES.contains(&name) {
            self.queue_expansion(value, span);
        } else {
            self.queue_subscript(value, span);
        }
    }

    fn queue_subscript(&mut self, text: &str, span: Span) {
        if has_commands_in_subscript(text) {
            self.queue_expansion(text, span);
        }
    }

    /// Queues the command substitutions in a text that the shell expands.
    pub(super) fn queue_expansion(&mut self, text: &str, span: Span) {
        if text.contains("$(") || text.contains('`') {
            let text = format!(": <<expanded\n{text}\nexpanded\n");
            self.queue_text(text, Origin::DerivedFrom(span), &ExecContext::default());
        }
    }
}

/// Returns whether a text has the form `NAME[…$(…)…]`, possibly with backquotes for `$(…)`.
fn has_commands_in_subscript(text: &str) -> bool {
    let Some((name, rest)) = text.split_once('[') else { return false };
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    is_name(name) && rest.contains(']') && (rest.contains("$(") || rest.contains('`'))
}

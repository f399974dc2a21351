//! Converts the words of the parser crate's tree.

use shuck_ast::{
    BourneParameterExpansion, CommandSubstitutionSyntax, Heredoc, HeredocBodyPart,
    ParameterExpansion, ParameterOp, StmtSeq, VarRef, WordPart, WordPartNode,
};

use super::{AstConverter, Origin};
use crate::ast::{Piece, Word};

/// The quotes around a literal, which determine what a backslash in the literal escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Double,
}

impl AstConverter<'_> {
    pub(super) fn word(&mut self, word: &shuck_ast::Word) -> Word {
        let mut pieces = vec![];
        self.push_parts(&word.parts, Quoting::None, &mut pieces);
        let has_braces = word.has_active_brace_expansion();
        Word { pieces, has_braces, span: self.span(word.span) }
    }

    fn push_parts(&mut self, parts: &[WordPartNode], quoting: Quoting, out: &mut Vec<Piece>) {
        for part in parts {
            self.push_part(part, quoting, out);
        }
    }

    fn push_part(&mut self, part: &WordPartNode, quoting: Quoting, out: &mut Vec<Piece>) {
        let is_quoted = quoting == Quoting::Double;
        let span = part.span;
        self.check_brace_closed(span);
        if let Some(piece) = self.nofork_substitution(span) {
            out.push(piece);
            return;
        }
        match &part.kind {
            WordPart::Literal(literal) => {
                let raw = literal.as_str(self.text, span);
                out.push(self.literal_piece(raw, span, quoting));
            }
            WordPart::SingleQuoted { value, .. } => {
                let raw = value.slice(self.text);
                let at = self.verbatim_offset(raw, value.span());
                out.push(Piece::Text { text: raw.to_owned(), offset: at });
            }
            WordPart::DoubleQuoted { parts, .. } => {
                if parts.is_empty() {
                    let text = String::new();
                    out.push(Piece::Text { text, offset: None });
                }
                self.push_parts(parts, Quoting::Double, out);
            }
            WordPart::Variable(name) => {
                let name = name.to_string();
                out.push(Piece::Variable { name, default: None, is_required: false, is_quoted });
            }
            WordPart::CommandSubstitution { body, syntax } => {
                let piece = self.command_substitution(body, *syntax, span, is_quoted);
                out.push(piece);
            }
            WordPart::ProcessSubstitution { body, .. } => {
                out.push(Piece::ProcessSubstitution { body: self.statements(body) });
            }
            WordPart::Parameter(expansion) => {
                let piece = self.parameter_piece(expansion, is_quoted);
                out.push(piece);
            }
            WordPart::ParameterExpansion { reference, operator, operand_word_ast, .. } => {
                let operand = operand_word_ast.as_deref();
                let piece = self.operator_piece(reference, operator, operand, is_quoted);
                out.push(piece);
            }
            WordPart::ArrayAccess(reference) if self.element_name(reference).is_some() => {
                let name = self.element_name(reference).unwrap_or_default();
                out.push(Piece::Variable { name, default: None, is_required: false, is_quoted });
            }
            other @ (WordPart::ZshQualifiedGlob(_)
            | WordPart::ArithmeticExpansion { .. }
            | WordPart::Length(_)
            | WordPart::ArrayAccess(_)
            | WordPart::ArrayLength(_)
            | WordPart::ArrayIndices(_)
            | WordPart::Substring { .. }
            | WordPart::ArraySlice { .. }
            | WordPart::IndirectExpansion { .. }
            | WordPart::PrefixMatch { .. }
            | WordPart::Transformation { .. }) => {
                let words = self.expansion_words(other);
                let is_number = matches!(other, WordPart::ArithmeticExpansion { .. });
                out.push(Piece::Unknown { words, is_arithmetic: is_number });
            }
        }
    }

    /// Returns the piece of an expansion with an operator, such as `${name:-default}`.
    fn operator_piece(
        &mut self,
        reference: &VarRef,
        operator: &ParameterOp,
        operand: Option<&shuck_ast::Word>,
        is_quoted: bool,
    ) -> Piece {
        let mut words = self.subscript_words(reference);
        let default = operand.map(|word| self.word(word));
        let name = reference.name.to_string();
        let is_required = matches!(operator, ParameterOp::Error);
        let has_default = matches!(operator, ParameterOp::UseDefault | ParameterOp::AssignDefault);
        if (is_required || has_default) && words.is_empty() {
            return Piece::Variable { name, default, is_required, is_quoted };
        }
        words.extend(default);
        words.extend(self.operator_words(operator));
        Piece::Unknown { words, is_arithmetic: false }
    }

    /// Returns the piece for a literal, without the backslashes that escape a character.
    fn literal_piece(&mut self, raw: &str, span: shuck_ast::Span, quoting: Quoting) -> Piece {
        // The parser removes the backslashes before some quoted characters. In this case the source
        // text, which still has all backslashes, is used instead.
        let source = self.text.get(span.start.offset()..span.end.offset()).unwrap_or(raw);
        let is_same = source.len() > raw.len() && source.replace('\\', "") == raw.replace('\\', "");
        let raw = if is_same { source } else { raw };
        // The parser returns an expansion that is nested beyond its depth limit as a literal,
        // without an error.
        if has_expansion(raw) {
            let literal_span = self.span(span);
            self.report_error(literal_span, "nested too deeply to be parsed");
        }
        let at = self.verbatim_offset(raw, span);
        if !raw.contains('\\') {
            return Piece::Text { text: raw.to_owned(), offset: at };
        }
        let mut text = String::with_capacity(raw.len());
        let mut chars = raw.chars();
        while let Some(c) = chars.next() {
            match (c, quoting) {
                ('\\', Quoting::None) => match chars.next() {
                    Some('\n') | None => {}
                    Some(next) => text.push(next),
                },
                ('\\', Quoting::Double) => match chars.next() {
                    Some('\n') => {}
                    Some(next @ ('$' | '`' | '"' | '\\')) => text.push(next),
                    Some(next) => text.extend(['\\', next]),
                    None => text.push('\\'),
                },
                (c, _) => text.push(c),
            }
        }
        Piece::Text { text, offset: None }
    }

    /// Returns the offset of a text in the judged text, if the text occurs verbatim at this span.
    fn verbatim_offset(&self, text: &str, span: shuck_ast::Span) -> Option<usize> {
        let (start, end) = (span.start.offset(), span.end.offset());
        let is_there = self.text.get(start..end).is_some_and(|there| there == text);
        self.origin.verbatim_offset(start).filter(|_| is_there)
    }

    fn command_substitution(
        &mut self,
        body: &StmtSeq,
        syntax: CommandSubstitutionSyntax,
        span: shuck_ast::Span,
        is_quoted: bool,
    ) -> Piece {
        let source = self.text.get(span.start.offset()..span.end.offset()).unwrap_or_default();
        let inner = source.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        // For escaped backticks inside backticks, the parser returns the inner backticks as literal
        // characters.
        if syntax == CommandSubstitutionSyntax::Backtick
            && let Some(inner) = inner
            && inner.contains('\\')
        {
            let origin = Origin::DerivedFrom(self.span(span));
            return Piece::Unparsed { text: unescape_backticks(inner), origin };
        }
        Piece::CommandSubstitution { body: self.statements(body), is_quoted }
    }

    fn parameter_piece(&mut self, expansion: &ParameterExpansion, is_quoted: bool) -> Piece {
        match expansion.bourne() {
            Some(BourneParameterExpansion::Access { reference })
                if reference.subscript.is_none() || self.element_name(reference).is_some() =>
            {
                let element = self.element_name(reference);
                let name = element.unwrap_or_else(|| reference.name.to_string());
                Piece::Variable { name, default: None, is_required: false, is_quoted }
            }
            Some(BourneParameterExpansion::Operation {
                reference,
                operator,
                operand_word_ast,
                ..
            }) if reference.subscript.is_none() => {
                let default = operand_word_ast.as_deref().map(|word| self.word(word));
                let name = reference.name.to_string();
                if matches!(**operator, ParameterOp::UseDefault | ParameterOp::AssignDefault) {
                    return Piece::Variable { name, default, is_required: false, is_quoted };
                }
                // `${x:?message}` expands to the variable's value, or the shell exits.
                if matches!(**operator, ParameterOp::Error) {
                    return Piece::Variable { name, default, is_required: true, is_quoted };
                }
                // `${x:+word}` expands to the word or to nothing.
                if matches!(**operator, ParameterOp::UseReplacement) {
                    let name = String::new();
                    return Piece::Variable { name, default, is_required: false, is_quoted };
                }
                let mut words: Vec<_> = default.into_iter().collect();
                words.extend(self.operator_words(operator));
                Piece::Unknown { words, is_arithmetic: false }
            }
            _ => {
                let words = self.parameter_words(expansion);
                Piece::Unknown { words, is_arithmetic: false }
            }
        }
    }

    /// Returns the piece for the substitutions `${ cmd; }` and `${| cmd; }` of bash 5.3, which the
    /// parser returns as variables without a name. Returns `None` for any other part of a word.
    fn nofork_substitution(&self, span: shuck_ast::Span) -> Option<Piece> {
        let source = self.text.get(span.start.offset()..span.end.offset())?;
        let inner = source.strip_prefix("${")?.strip_suffix('}')?;
        let skipped = match inner.chars().next()? {
            ' ' | '\t' | '\n' | '(' => 0,
            '|' => 1,
            _ => return None,
        };
        let origin = self.origin.offset_by(span.start.offset() + 2 + skipped);
        Some(Piece::Unparsed { text: inner[skipped..].to_owned(), origin })
    }

    /// Reports an unclosed `${`. The parser accepts `echo ${x`, for which bash waits for the
    /// closing brace.
    fn check_brace_closed(&mut self, span: shuck_ast::Span) {
        let source = self.text.get(span.start.offset()..span.end.offset()).unwrap_or_default();
        if source.starts_with("${") && !source.ends_with('}') {
            let error_span = self.span(span);
            self.report_error(error_span, "`${` is never closed");
        }
    }

    pub(super) fn heredoc(&mut self, heredoc: &Heredoc) -> Word {
        let body = &heredoc.body;
        let mut pieces = vec![];
        for part in &body.parts {
            let span = part.span;
            self.check_brace_closed(span);
            if let Some(piece) = self.nofork_substitution(span) {
                pieces.push(piece);
                continue;
            }
            match &part.kind {
                HeredocBodyPart::Literal(literal) => {
                    let raw = literal.as_str(self.text, span);
                    if heredoc.delimiter.quoted {
                        let at = self.verbatim_offset(raw, span);
                        pieces.push(Piece::Text { text: raw.to_owned(), offset: at });
                    } else {
                        pieces.push(self.literal_piece(raw, span, Quoting::Double));
                    }
                }
                HeredocBodyPart::Variable(name) => {
                    let name = name.to_string();
                    pieces.push(Piece::Variable {
                        name,
                        default: None,
                        is_required: false,
                        is_quoted: true,
                    });
                }
                HeredocBodyPart::CommandSubstitution { body, syntax } => {
                    let piece = self.command_substitution(body, *syntax, span, true);
                    pieces.push(piece);
                }
                HeredocBodyPart::ArithmeticExpansion { expression_word_ast, .. } => {
                    let words = vec![self.word(expression_word_ast)];
                    pieces.push(Piece::Unknown { words, is_arithmetic: true });
                }
                HeredocBodyPart::Parameter(expansion) => {
                    let piece = self.parameter_piece(expansion, true);
                    pieces.push(piece);
                }
            }
        }
        Word { pieces, has_braces: false, span: self.span(body.span) }
    }

    /// Returns the word for an arithmetic expression, whose value is an unknown number. The word
    /// contains the substitutions in the expression.
    pub(super) fn arithmetic_word(&mut self, span: shuck_ast::Span) -> Word {
        let word_span = self.span(span);
        let source = self.text.get(span.start.offset()..span.end.offset()).unwrap_or_default();
        let mut pieces = vec![Piece::Unknown { words: vec![], is_arithmetic: true }];
        if source.contains("$(") || source.contains('`') {
            let text = format!(": \"$(({source}))\"");
            pieces.push(Piece::Unparsed { text, origin: Origin::DerivedFrom(word_span) });
        }
        Word { pieces, has_braces: false, span: word_span }
    }
}

/// Returns whether the text contains `$(`, `${` or a backtick without a backslash.
fn has_expansion(raw: &str) -> bool {
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', _) => {
                chars.next();
            }
            ('`', _) | ('$', Some('(' | '{')) => return true,
            _ => {}
        }
    }
    false
}

/// Removes the backslashes before `` ` ``, `\` and `$`, as the shell does inside backticks.
fn unescape_backticks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('`' | '\\' | '$')) => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    out
}

//! Converts the words inside subscripts, patterns, operands and arithmetic, where the shell also
//! runs commands.

use shuck_ast::{
    BourneParameterExpansion, ConditionalExpr, ParameterExpansion, ParameterOp, Pattern,
    PatternPart, VarRef, WordPart,
};

use super::AstConverter;
use crate::ast::Word;

impl AstConverter<'_> {
    /// Returns the words in the subscript of a variable reference.
    pub(super) fn subscript_words(&mut self, reference: &VarRef) -> Vec<Word> {
        let word = reference.subscript.as_deref().and_then(|subscript| subscript.word_ast());
        word.map(|word| self.word(word)).into_iter().collect()
    }

    /// Returns the name of an array element, such as `a[0]`, or of all elements, such as `a[@]`.
    /// Returns `None` for any other subscript, and without a subscript.
    pub(super) fn element_name(&self, reference: &VarRef) -> Option<String> {
        let subscript = reference.subscript.as_deref()?.syntax_text(self.text);
        let is_number = !subscript.is_empty() && subscript.bytes().all(|b| b.is_ascii_digit());
        let is_plain = is_number || matches!(subscript, "@" | "*");
        is_plain.then(|| format!("{}[{subscript}]", reference.name))
    }

    pub(super) fn pattern_words(&mut self, pattern: &Pattern) -> Vec<Word> {
        let mut words = vec![];
        for (part, _) in pattern.parts_with_spans() {
            match part {
                PatternPart::Word(word) => words.push(self.word(word)),
                PatternPart::Group { patterns, .. } => {
                    words.extend(patterns.iter().flat_map(|pattern| self.pattern_words(pattern)));
                }
                PatternPart::Literal(_)
                | PatternPart::AnyString
                | PatternPart::AnyChar
                | PatternPart::CharClass(_) => {}
            }
        }
        words
    }

    pub(super) fn operator_words(&mut self, operator: &ParameterOp) -> Vec<Word> {
        let replacement = operator.replacement_word_ast().map(|word| self.word(word));
        let mut words: Vec<_> = replacement.into_iter().collect();
        match operator {
            ParameterOp::RemovePrefixShort { pattern }
            | ParameterOp::RemovePrefixLong { pattern }
            | ParameterOp::RemoveSuffixShort { pattern }
            | ParameterOp::RemoveSuffixLong { pattern }
            | ParameterOp::ReplaceFirst { pattern, .. }
            | ParameterOp::ReplaceAll { pattern, .. } => words.extend(self.pattern_words(pattern)),
            ParameterOp::UseDefault
            | ParameterOp::AssignDefault
            | ParameterOp::UseReplacement
            | ParameterOp::Error
            | ParameterOp::UpperFirst
            | ParameterOp::UpperAll
            | ParameterOp::LowerFirst
            | ParameterOp::LowerAll => {}
        }
        words
    }

    /// Returns the words in an expansion whose value is not tracked. The words may contain
    /// commands.
    pub(super) fn expansion_words(&mut self, part: &WordPart) -> Vec<Word> {
        match part {
            WordPart::ArithmeticExpansion { expression_word_ast, .. } => {
                vec![self.word(expression_word_ast)]
            }
            WordPart::Length(reference)
            | WordPart::ArrayAccess(reference)
            | WordPart::ArrayLength(reference)
            | WordPart::ArrayIndices(reference)
            | WordPart::Transformation { reference, .. } => self.subscript_words(reference),
            WordPart::Substring { reference, offset_word_ast, length_word_ast, .. }
            | WordPart::ArraySlice { reference, offset_word_ast, length_word_ast, .. } => {
                let mut words = self.subscript_words(reference);
                words.push(self.word(offset_word_ast));
                words.extend(length_word_ast.as_deref().map(|word| self.word(word)));
                words
            }
            WordPart::IndirectExpansion { reference, operator, operand_word_ast, .. } => {
                let mut words = self.subscript_words(reference);
                words.extend(operator.iter().flat_map(|operator| self.operator_words(operator)));
                words.extend(operand_word_ast.as_deref().map(|word| self.word(word)));
                words
            }
            WordPart::Literal(_)
            | WordPart::ZshQualifiedGlob(_)
            | WordPart::SingleQuoted { .. }
            | WordPart::DoubleQuoted { .. }
            | WordPart::Variable(_)
            | WordPart::CommandSubstitution { .. }
            | WordPart::Parameter(_)
            | WordPart::ParameterExpansion { .. }
            | WordPart::PrefixMatch { .. }
            | WordPart::ProcessSubstitution { .. } => vec![],
        }
    }

    pub(super) fn parameter_words(&mut self, expansion: &ParameterExpansion) -> Vec<Word> {
        let Some(bourne) = expansion.bourne() else { return vec![] };
        let mut words = match bourne {
            BourneParameterExpansion::Access { reference }
            | BourneParameterExpansion::Length { reference }
            | BourneParameterExpansion::Indices { reference }
            | BourneParameterExpansion::Indirect { reference, .. }
            | BourneParameterExpansion::Slice { reference, .. }
            | BourneParameterExpansion::Operation { reference, .. }
            | BourneParameterExpansion::Transformation { reference, .. } => {
                self.subscript_words(reference)
            }
            BourneParameterExpansion::PrefixMatch { .. } => vec![],
        };
        match bourne {
            BourneParameterExpansion::Operation { operator, .. } => {
                words.extend(self.operator_words(operator));
            }
            BourneParameterExpansion::Indirect { operator: Some(operator), .. } => {
                words.extend(self.operator_words(operator));
            }
            BourneParameterExpansion::Access { .. }
            | BourneParameterExpansion::Length { .. }
            | BourneParameterExpansion::Indices { .. }
            | BourneParameterExpansion::Indirect { operator: None, .. }
            | BourneParameterExpansion::Slice { .. }
            | BourneParameterExpansion::Transformation { .. }
            | BourneParameterExpansion::PrefixMatch { .. } => {}
        }
        let asts = [bourne.operand_word_ast(), bourne.offset_word_ast(), bourne.length_word_ast()];
        words.extend(asts.into_iter().flatten().map(|word| self.word(word)));
        words
    }

    /// Returns the words of `[[ … ]]`. The function uses a loop instead of recursion, because the
    /// parser nests a chain of `&&` to the left, one level for each operator.
    pub(super) fn condition_words(&mut self, expression: &ConditionalExpr) -> Vec<Word> {
        let (mut open, mut words) = (vec![expression], vec![]);
        while let Some(expression) = open.pop() {
            match expression {
                ConditionalExpr::Binary(binary) => open.extend([&*binary.right, &*binary.left]),
                ConditionalExpr::Unary(unary) => open.push(&unary.expr),
                ConditionalExpr::Parenthesized(inner) => open.push(&inner.expr),
                ConditionalExpr::Word(word) | ConditionalExpr::Regex(word) => {
                    words.push(self.word(word));
                }
                ConditionalExpr::Pattern(pattern) => words.extend(self.pattern_words(pattern)),
                ConditionalExpr::VarRef(reference) => words.extend(self.subscript_words(reference)),
            }
        }
        words
    }
}

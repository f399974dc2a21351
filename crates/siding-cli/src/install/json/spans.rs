//! Finds the positions of values, commas and comments in a JSON text.

use std::ops::Range;

use jsonc_parser::ast::{ObjectProp, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::tokens::{Token, TokenAndRange};
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::Value;

use super::{Dialect, JsonPath, PathStep, TextError};

/// A parsed JSON text: its values and tokens with their byte ranges.
pub(super) struct JsonSpans<'t> {
    root: Node<'t>,
    tokens: Vec<TokenAndRange<'t>>,
}

/// The byte ranges of an object or array and of its members.
#[derive(Debug)]
pub(super) struct Container {
    /// Range from the opening to the closing bracket, both included.
    pub(super) range: Range<usize>,
    /// Range between the brackets.
    pub(super) inside: Range<usize>,
    /// Ranges of the object's members, including their keys, or of the array's elements.
    pub(super) members: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TokenEnd {
    /// Offset after the last byte of the token.
    pub(super) end: usize,
    /// Whether the token is a line comment, which extends to the end of the line.
    pub(super) ends_line: bool,
}

impl<'t> JsonSpans<'t> {
    /// Parses a text without a byte order mark. Comments and trailing commas are errors unless the
    /// dialect allows them.
    pub(super) fn parse(text: &'t str, dialect: Dialect) -> Result<Self, TextError> {
        let collect =
            CollectOptions { comments: CommentCollectionStrategy::AsTokens, tokens: true };
        let options = ParseOptions {
            allow_comments: dialect != Dialect::Strict,
            allow_trailing_commas: dialect == Dialect::Loose,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let parsed = parse_to_ast(text, &collect, &options)
            .map_err(|error| TextError::from_parse_error(text, &error))?;
        let tokens = parsed.tokens.unwrap_or_default();
        let comment = tokens.iter().find(|token| is_comment(&token.token));
        if let (Dialect::Strict, Some(comment)) = (dialect, comment) {
            let what = "a comment, which JSON does not allow".to_owned();
            return Err(TextError::at_offset(text, comment.range.start, what));
        }
        let root = parsed
            .value
            .ok_or_else(|| TextError::at_offset(text, text.len(), "no value".to_owned()))?;
        Ok(Self { root, tokens })
    }

    pub(super) fn root_span(&self) -> Range<usize> {
        self.root.start()..self.root.end()
    }

    fn node(&self, path: JsonPath<'_>) -> Option<&Node<'t>> {
        let mut node = &self.root;
        for step in path {
            node = match (step, node) {
                (PathStep::Key(key), Node::Object(object)) => {
                    &object.properties.iter().rfind(|one| one.name.as_str() == *key)?.value
                }
                (PathStep::Index(index), Node::Array(array)) => array.elements.get(*index)?,
                _ => return None,
            };
        }
        Some(node)
    }

    /// Returns the value at a path, converted to serde_json's type.
    pub(super) fn value(&self, path: JsonPath<'_>) -> Option<Value> {
        self.node(path).map(|node| node.clone().into())
    }

    pub(super) fn value_span(&self, path: JsonPath<'_>) -> Option<Range<usize>> {
        self.node(path).map(|node| node.start()..node.end())
    }

    /// Returns the range of a member, including its key, or of an element.
    pub(super) fn member_span(&self, path: JsonPath<'_>) -> Option<Range<usize>> {
        let (step, above) = path.split_last()?;
        match (step, self.node(above)?) {
            (PathStep::Key(key), Node::Object(object)) => {
                let member = object.properties.iter().rfind(|one| one.name.as_str() == *key)?;
                Some(property_span(member))
            }
            (PathStep::Index(_), _) => self.value_span(path),
            _ => None,
        }
    }

    /// Returns the first key of a path that occurs twice in its object, with the offset of the
    /// second occurrence.
    pub(super) fn find_duplicate_key(&self, path: JsonPath<'_>) -> Option<(usize, String)> {
        path.iter().enumerate().find_map(|(depth, step)| {
            let (PathStep::Key(key), Some(Node::Object(object))) =
                (step, self.node(&path[..depth]))
            else {
                return None;
            };
            let same = object.properties.iter().filter(|one| one.name.as_str() == *key);
            same.skip(1).map(|one| (one.range.start, (*key).to_owned())).next()
        })
    }

    /// Returns the ranges of the object or array at a path; `None` for any other value.
    pub(super) fn container(&self, path: JsonPath<'_>) -> Option<Container> {
        let (range, members): (_, Vec<Range<usize>>) = match self.node(path)? {
            Node::Object(object) => {
                (object.range, object.properties.iter().map(property_span).collect())
            }
            Node::Array(array) => {
                let range = |node: &Node<'_>| node.start()..node.end();
                (array.range, array.elements.iter().map(range).collect())
            }
            Node::StringLit(_)
            | Node::NumberLit(_)
            | Node::BooleanLit(_)
            | Node::NullKeyword(_) => {
                return None;
            }
        };
        let inside = range.start + 1..range.end - 1;
        Some(Container { range: range.start..range.end, inside, members })
    }

    /// Returns the end of the last token or comment in a container, or of the opening bracket if
    /// the container is empty.
    pub(super) fn last_token_in(&self, container: &Container) -> TokenEnd {
        self.token_before(container.inside.end)
    }

    /// Returns whether a comma follows the last member of a container.
    pub(super) fn ends_with_comma(&self, container: &Container) -> bool {
        self.comma_before(container.inside.end).is_some()
    }

    /// Returns the end of the last token or comment before an offset.
    pub(super) fn token_before(&self, at: usize) -> TokenEnd {
        let before = self.tokens.iter().rfind(|token| token.range.end <= at);
        before.map_or(TokenEnd { end: 0, ends_line: false }, |token| TokenEnd {
            end: token.range.end,
            ends_line: matches!(token.token, Token::CommentLine(_)),
        })
    }

    /// Returns the next token after an offset, ignoring comments, if it is a comma.
    pub(super) fn comma_after(&self, at: usize) -> Option<Range<usize>> {
        let mut behind = self.tokens.iter().filter(|token| !is_comment(&token.token));
        behind.find(|token| token.range.start >= at).and_then(as_comma)
    }

    /// Returns the last token before an offset, ignoring comments, if it is a comma.
    pub(super) fn comma_before(&self, at: usize) -> Option<Range<usize>> {
        let before = self.tokens.iter().filter(|token| !is_comment(&token.token));
        before.take_while(|token| token.range.end <= at).last().and_then(as_comma)
    }
}

fn as_comma(token: &TokenAndRange<'_>) -> Option<Range<usize>> {
    (token.token == Token::Comma).then_some(token.range.start..token.range.end)
}

fn is_comment(token: &Token<'_>) -> bool {
    matches!(token, Token::CommentLine(_) | Token::CommentBlock(_))
}

fn property_span(member: &ObjectProp<'_>) -> Range<usize> {
    member.range.start..member.range.end
}

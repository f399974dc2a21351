//! Where a text stands in the judged one.

use crate::ast::Span;

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It stands there letter by letter, from this byte on.
    At(usize),
    /// It was made from what stands there.
    Within(Span),
}

impl Origin {
    /// Returns the place of a part of the text.
    pub(crate) fn place(self, start: usize, end: usize) -> Span {
        match self {
            Self::At(base) => Span { start: base + start, end: base + end.max(start) },
            Self::Within(span) => span,
        }
    }

    /// Returns the origin of what stands letter by letter in the text from this byte on.
    pub(crate) fn inner(self, start: usize) -> Self {
        match self {
            Self::At(base) => Self::At(base + start),
            Self::Within(span) => Self::Within(span),
        }
    }

    /// Returns the byte of the judged text at which a part of this text stands letter by letter.
    pub(crate) fn verbatim(self, start: usize) -> Option<usize> {
        match self {
            Self::At(base) => Some(base + start),
            Self::Within(_) => None,
        }
    }
}

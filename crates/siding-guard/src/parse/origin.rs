//! Where a text stands in the judged one.

use crate::ast::Span;

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It stands there letter by letter, from this byte on.
    Verbatim(usize),
    /// It was made from what stands there.
    DerivedFrom(Span),
}

impl Origin {
    /// Returns the place of a part of the text.
    pub(crate) fn span(self, start: usize, end: usize) -> Span {
        match self {
            Self::Verbatim(base) => Span { start: base + start, end: base + end.max(start) },
            Self::DerivedFrom(span) => span,
        }
    }

    /// Returns the origin of what stands letter by letter in the text from this byte on.
    pub(crate) fn offset_by(self, start: usize) -> Self {
        match self {
            Self::Verbatim(base) => Self::Verbatim(base + start),
            Self::DerivedFrom(span) => Self::DerivedFrom(span),
        }
    }

    /// Returns the byte of the judged text at which a part of this text stands letter by letter.
    pub(crate) fn verbatim_offset(self, start: usize) -> Option<usize> {
        match self {
            Self::Verbatim(base) => Some(base + start),
            Self::DerivedFrom(_) => None,
        }
    }
}

//! The position of a text within the judged text.

use super::Span;

/// The origin of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A verbatim part of the judged text, from this byte offset.
    Verbatim(usize),
    /// Derived from this span of the judged text, for example by unescaping.
    DerivedFrom(Span),
}

impl Origin {
    /// Returns the span of a part of the text.
    pub(crate) fn span(self, start: usize, end: usize) -> Span {
        match self {
            Self::Verbatim(base) => Span { start: base + start, end: base + end.max(start) },
            Self::DerivedFrom(span) => span,
        }
    }

    /// Returns the origin of the part that starts at this byte.
    pub(crate) fn offset_by(self, start: usize) -> Self {
        match self {
            Self::Verbatim(base) => Self::Verbatim(base + start),
            Self::DerivedFrom(span) => Self::DerivedFrom(span),
        }
    }

    /// Returns the offset of a byte in the judged text; `None` for a derived text.
    pub(crate) fn verbatim_offset(self, start: usize) -> Option<usize> {
        match self {
            Self::Verbatim(base) => Some(base + start),
            Self::DerivedFrom(_) => None,
        }
    }
}

//! The position of a nested text within the judged text.

use super::Span;

/// The relation of a nested text to the judged text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The nested text is a verbatim part of the judged text, and starts at this byte offset.
    Verbatim(usize),
    /// The nested text was derived from this span of the judged text, for example by unescaping.
    DerivedFrom(Span),
}

impl Origin {
    /// Returns the span in the judged text for a range of bytes in the nested text. For a derived
    /// text, this is the whole span from which the text was derived.
    pub(crate) fn span(self, start: usize, end: usize) -> Span {
        match self {
            Self::Verbatim(base) => Span { start: base + start, end: base + end.max(start) },
            Self::DerivedFrom(span) => span,
        }
    }

    /// Returns the origin of the part of the nested text that starts at this byte.
    pub(crate) fn offset_by(self, start: usize) -> Self {
        match self {
            Self::Verbatim(base) => Self::Verbatim(base + start),
            Self::DerivedFrom(span) => Self::DerivedFrom(span),
        }
    }

    /// Returns the offset in the judged text for an offset in the nested text, or `None` for a
    /// derived text.
    pub(crate) fn verbatim_offset(self, start: usize) -> Option<usize> {
        match self {
            Self::Verbatim(base) => Some(base + start),
            Self::DerivedFrom(_) => None,
        }
    }
}

//! Tables, whose rows become cards on a narrow screen.

use maud::{Markup, html};

/// The kind of a column, which determines its alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    /// Aligned to the left.
    Text,
    /// Aligned to the right, and never wrapped.
    Number,
}

/// Returns a table. Each row has a cell for each column. The roles keep the meaning of the elements
/// when the style sheet shows rows as cards.
pub(super) fn table(
    columns: &[(&str, CellKind)],
    rows: impl IntoIterator<Item = Vec<Markup>>,
) -> Markup {
    html! {
        table role="table" {
            thead role="rowgroup" {
                tr role="row" {
                    @for (title, kind) in columns {
                        th scope="col" role="columnheader" class=[class_of(*kind)] { (title) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" {
                        @for ((title, kind), cell) in columns.iter().zip(row) {
                            td role="cell" data-label=(title) class=[class_of(*kind)] { (cell) }
                        }
                    }
                }
            }
        }
    }
}

const fn class_of(kind: CellKind) -> Option<&'static str> {
    match kind {
        CellKind::Text => None,
        CellKind::Number => Some("number"),
    }
}

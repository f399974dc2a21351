//! The columns of the list, chosen by the width of the terminal.

use siding_live::arrange::SortKey;

/// Columns between two cells.
pub(crate) const GAP_COLUMNS: usize = 1;
/// Minimum width of the command column.
const MIN_COMMAND_COLUMNS: usize = 12;
/// Minimum width of the command column if more than the first [`ESSENTIAL_COLUMNS`] of the
/// [`OPTIONAL_COLUMNS`] are shown.
const READABLE_COMMAND_COLUMNS: usize = 20;
const ESSENTIAL_COLUMNS: usize = 3;
/// Minimum width of the silence.
const MIN_SILENCE_COLUMNS: usize = 16;
/// Width up to which the silence receives all additional space once the command has
/// [`READABLE_COMMAND_COLUMNS`]: a person looks first for the reason for the silence.
const COMFORTABLE_SILENCE_COLUMNS: usize = 40;
/// Width up to which the command then receives all additional space. Beyond it, the silence and the
/// command share the space.
const COMFORTABLE_COMMAND_COLUMNS: usize = 40;

/// A column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// The symbol of the state.
    Symbol,
    /// The beginning of the id, which commands accept while it is unique.
    ShortId,
    /// The whole id.
    Id,
    /// The state in words.
    State,
    /// The name and the command.
    Command,
    /// The elapsed time.
    Elapsed,
    /// The elapsed time, and a bar that compares it with the usual time.
    TimeBar,
    /// The silence and its reason.
    Silence,
    /// Processor time, in percent of one core.
    Cpu,
    /// Memory.
    Memory,
    /// The number of processes.
    Processes,
    /// Listening ports.
    Ports,
    /// The output rate.
    Rate,
    /// Unread notices.
    Unread,
    /// The program to which the session belongs.
    Host,
    /// The session.
    Session,
}

impl Column {
    /// All columns from left to right.
    const ALL_COLUMNS: [Self; 16] = [
        Self::Symbol,
        Self::ShortId,
        Self::Id,
        Self::State,
        Self::Command,
        Self::Elapsed,
        Self::TimeBar,
        Self::Silence,
        Self::Cpu,
        Self::Memory,
        Self::Processes,
        Self::Ports,
        Self::Rate,
        Self::Unread,
        Self::Host,
        Self::Session,
    ];

    /// Returns the title.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Symbol => "",
            Self::ShortId | Self::Id => "ID",
            Self::State => "STATE",
            Self::Command => "COMMAND",
            Self::Elapsed => "   TIME",
            Self::TimeBar => "   TIME  OF USUAL",
            Self::Silence => "SILENCE",
            Self::Cpu => " CPU",
            Self::Memory => " MEMORY",
            Self::Processes => "PROC",
            Self::Ports => "PORTS",
            Self::Rate => "  OUTPUT",
            Self::Unread => "NEW",
            Self::Host => "HOST",
            Self::Session => "SESSION",
        }
    }

    /// Returns the sort key that a click on the column's heading selects.
    pub(crate) const fn sort_key(self) -> SortKey {
        match self {
            // Ids are random, so their order has no meaning.
            Self::ShortId | Self::Id => SortKey::Time,
            Self::Symbol | Self::State => SortKey::State,
            Self::Command => SortKey::Name,
            Self::Elapsed => SortKey::Elapsed,
            Self::TimeBar => SortKey::Usual,
            Self::Silence => SortKey::Silence,
            Self::Cpu => SortKey::Cpu,
            Self::Memory => SortKey::Memory,
            Self::Processes => SortKey::Processes,
            Self::Ports => SortKey::Ports,
            Self::Rate => SortKey::Rate,
            Self::Unread => SortKey::Notices,
            Self::Host | Self::Session => SortKey::Session,
        }
    }

    /// Returns the width in columns; for the command and the silence, the minimum width.
    const fn width(self) -> usize {
        match self {
            Self::Symbol => 1,
            Self::ShortId | Self::Host => 6,
            Self::Id => 14,
            Self::State => 12,
            Self::Command => MIN_COMMAND_COLUMNS,
            Self::Elapsed | Self::Memory => 7,
            Self::TimeBar => 22,
            Self::Silence => MIN_SILENCE_COLUMNS,
            Self::Cpu => 5,
            Self::Processes => 4,
            Self::Ports => 11,
            Self::Rate => 9,
            Self::Unread => 3,
            Self::Session => 22,
        }
    }

    /// Returns whether numbers in the column are aligned to the right.
    pub(crate) const fn is_right_aligned(self) -> bool {
        matches!(self, Self::Cpu | Self::Memory | Self::Processes | Self::Rate | Self::Unread)
    }
}

/// A column and its width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnLayout {
    pub(crate) column: Column,
    pub(crate) width: usize,
}

/// The optional columns in the order in which they appear as the terminal becomes wider, each with
/// the column that it replaces.
const OPTIONAL_COLUMNS: [(Column, Option<Column>); 14] = [
    (Column::Elapsed, None),
    (Column::ShortId, None),
    (Column::State, None),
    (Column::Cpu, None),
    (Column::Memory, None),
    (Column::TimeBar, Some(Column::Elapsed)),
    (Column::Silence, None),
    (Column::Unread, None),
    (Column::Processes, None),
    (Column::Host, None),
    (Column::Session, None),
    (Column::Ports, None),
    (Column::Rate, None),
    (Column::Id, Some(Column::ShortId)),
];

/// Returns the columns for a width, from left to right. Together with the gaps they fill the width,
/// which is at least 14. The optional columns in `empty` are left out.
pub(crate) fn layout(width: usize, empty: &[Column]) -> Vec<ColumnLayout> {
    let mut chosen = vec![Column::Symbol, Column::Command];
    for (number, (column, replaced)) in OPTIONAL_COLUMNS.into_iter().enumerate() {
        if empty.contains(&column) {
            continue;
        }
        let mut wider = chosen.clone();
        wider.retain(|other| Some(*other) != replaced);
        wider.push(column);
        let extra = if number < ESSENTIAL_COLUMNS {
            0
        } else {
            READABLE_COMMAND_COLUMNS - MIN_COMMAND_COLUMNS
        };
        if minimum_width(&wider) + extra <= width {
            chosen = wider;
        } else {
            break;
        }
    }
    let spare = width.saturating_sub(minimum_width(&chosen));
    let silence_spare = if chosen.contains(&Column::Silence) { silence_share(spare) } else { 0 };
    let command_spare = spare - silence_spare;
    let width_of = |column: Column| {
        if column == Column::Command {
            column.width() + command_spare
        } else if column == Column::Silence {
            column.width() + silence_spare
        } else {
            column.width()
        }
    };
    let listed = Column::ALL_COLUMNS.into_iter().filter(|column| chosen.contains(column));
    listed.map(|column| ColumnLayout { column, width: width_of(column) }).collect()
}

/// Returns the number of `spare` columns that the silence receives in addition to its minimum
/// width; the command receives the others.
fn silence_share(spare: usize) -> usize {
    let after_readable = spare.saturating_sub(READABLE_COMMAND_COLUMNS - MIN_COMMAND_COLUMNS);
    let silence = after_readable.min(COMFORTABLE_SILENCE_COLUMNS - MIN_SILENCE_COLUMNS);
    let rest = after_readable - silence;
    silence + rest.saturating_sub(COMFORTABLE_COMMAND_COLUMNS - READABLE_COMMAND_COLUMNS) / 2
}

/// Returns the column of a [`layout`] at a column of the screen. A gap belongs to the column on its
/// left.
pub(crate) fn column_at(position: usize, width: usize, empty: &[Column]) -> Option<Column> {
    let mut end = 0;
    layout(width, empty).into_iter().find_map(|one| {
        end += one.width + GAP_COLUMNS;
        (position < end).then_some(one.column)
    })
}

fn minimum_width(columns: &[Column]) -> usize {
    let cells: usize = columns.iter().map(|column| column.width()).sum();
    cells + columns.len().saturating_sub(1) * GAP_COLUMNS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn titles(width: usize) -> String {
        let titles: Vec<&str> =
            layout(width, &[]).iter().map(|layout| layout.column.title().trim()).collect();
        titles.join(" ").trim().to_owned()
    }

    #[test]
    fn a_wider_terminal_shows_more() {
        assert_eq!(titles(20), "COMMAND");
        assert_eq!(titles(40), "ID COMMAND TIME");
        assert_eq!(titles(80), "ID STATE COMMAND TIME  OF USUAL CPU MEMORY");
        assert_eq!(titles(100), "ID STATE COMMAND TIME  OF USUAL SILENCE CPU MEMORY NEW");
        assert!(titles(300).ends_with("SILENCE CPU MEMORY PROC PORTS OUTPUT NEW HOST SESSION"));
    }

    /// The widths are those of the table in `docs/top.md`.
    #[test]
    fn each_column_appears_at_its_width() {
        for (width, title) in [
            (22, "TIME"),
            (29, "ID"),
            (42, "STATE"),
            (56, "CPU"),
            (64, "MEMORY"),
            (79, "OF USUAL"),
            (96, "SILENCE"),
            (100, "NEW"),
            (105, "PROC"),
            (112, "HOST"),
            (135, "SESSION"),
            (147, "PORTS"),
            (157, "OUTPUT"),
        ] {
            assert!(titles(width).contains(title), "{width}: {}", titles(width));
            assert!(!titles(width - 1).contains(title), "{width}: {}", titles(width - 1));
        }
        assert!(layout(165, &[]).iter().any(|one| one.column == Column::Id));
        assert!(layout(164, &[]).iter().any(|one| one.column == Column::ShortId));
    }

    /// A long verdict, such as a wait for input with its question, needs about 40 columns.
    #[test]
    fn the_silence_grows_before_the_command_is_wide() {
        let widths = |width| {
            let columns = layout(width, &[]);
            let find = |column: Column| columns.iter().find(|one| one.column == column);
            [Column::Silence, Column::Command].map(|column| find(column).map(|one| one.width))
        };
        assert_eq!(widths(80), [None, Some(21)]);
        assert_eq!(widths(100), [Some(16), Some(20)]);
        assert_eq!(widths(104), [Some(20), Some(20)]);
        assert_eq!(widths(165), [Some(16), Some(20)]);
        assert_eq!(widths(189), [Some(40), Some(20)]);
        assert_eq!(widths(200), [Some(40), Some(31)]);
        assert_eq!(widths(209), [Some(40), Some(40)]);
        assert_eq!(widths(229), [Some(50), Some(50)]);
    }

    #[test]
    fn an_empty_column_leaves_its_place_to_the_others() {
        let listed = |width, empty: &[Column]| -> Vec<Column> {
            layout(width, empty).iter().map(|one| one.column).collect()
        };
        let columns = listed(100, &[Column::TimeBar]);
        assert!(columns.contains(&Column::Elapsed) && columns.contains(&Column::Processes));
        let columns = listed(128, &[Column::Host]);
        assert_eq!(columns.last(), Some(&Column::Session));
        assert!(!columns.contains(&Column::Host));
        assert_eq!(column_at(127, 128, &[Column::Host]), Some(Column::Session));
    }

    #[test]
    fn every_shown_column_is_found_at_its_position() {
        for width in [20, 80, 300] {
            let mut position = 0;
            for ColumnLayout { column, width: cells } in layout(width, &[]) {
                for inside in [position, position + cells - 1] {
                    assert_eq!(column_at(inside, width, &[]), Some(column), "{inside} of {width}");
                }
                position += cells + GAP_COLUMNS;
            }
            assert_eq!(column_at(width + 1, width, &[]), None);
        }
    }

    proptest! {
        #[test]
        fn columns_fill_the_width_and_never_exceed_it(
            width in 20_usize..400,
            empty in prop::sample::subsequence(vec![Column::TimeBar, Column::Host], 0..=2),
        ) {
            let columns = layout(width, &empty);
            prop_assert!(columns.iter().all(|one| !empty.contains(&one.column)));
            let cells: usize = columns.iter().map(|column| column.width).sum();
            let total = cells + (columns.len() - 1) * GAP_COLUMNS;
            prop_assert_eq!(total, width);
        }
    }
}

//! The rows, one file each.

mod adopting;
mod conversing;
mod ending;
mod flowing;
mod guarding;
mod hooking;
mod host_memory;
mod idling;
mod kernel_share;
mod listing;
mod recovering;
mod scaling;
mod stalling;
mod starting;
mod waiting;

pub(super) mod crowding;
pub(super) mod telling;

use anyhow::Result;

use super::Bench;
use super::table::Table;

/// One row: what is measured together.
#[derive(Debug)]
pub(super) struct Row {
    /// The word that selects it.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Adds its lines. An error means that it could not be measured.
    pub(super) measure: fn(&Bench, &mut Table) -> Result<()>,
}

/// All of them, in the order of the table.
pub(super) const ALL: &[Row] = &[
    starting::ROW,
    adopting::ROW,
    hooking::ROW,
    ending::ROW,
    waiting::ROW,
    flowing::ROW,
    host_memory::ROW,
    idling::ROW,
    kernel_share::ROW,
    scaling::ROW,
    crowding::ROW,
    listing::ROW,
    recovering::ROW,
    stalling::ROW,
    telling::ROW,
    guarding::ROW,
    conversing::ROW,
];

/// Returns the rows with these names, all when there is none.
pub(super) fn chosen(names: &[String]) -> impl Iterator<Item = &'static Row> {
    ALL.iter().filter(move |row| names.is_empty() || names.iter().any(|name| name == row.name))
}

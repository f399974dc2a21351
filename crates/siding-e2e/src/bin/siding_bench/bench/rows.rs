//! The rows of the table, each in its own module.

mod adoption;
mod against_spooler;
mod agent_loop;
mod exit_latency;
mod guard;
mod hooks;
mod idle_cost;
mod kernel_memory;
mod list_latency;
mod output_throughput;
mod peak_memory;
mod recovery;
mod scaling;
mod stall_detection;
mod start_latency;
mod top_screen;
mod wait_latency;
mod web_page;

pub(super) mod many_tasks;
pub(super) mod token_usage;

use anyhow::Result;

use super::Bench;
use super::table::ResultTable;

/// A group of related measurements that can be selected by name.
#[derive(Debug)]
pub(super) struct Row {
    /// The word that selects the row on the command line.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Measures the row and adds its lines to the table. Returns an error if the row could not be
    /// measured.
    pub(super) measure: fn(&Bench, &mut ResultTable) -> Result<()>,
}

/// All rows, in the order of the table.
pub(super) const ALL_ROWS: &[Row] = &[
    start_latency::ROW,
    against_spooler::ROW,
    adoption::ROW,
    hooks::ROW,
    exit_latency::ROW,
    wait_latency::ROW,
    output_throughput::ROW,
    peak_memory::ROW,
    idle_cost::ROW,
    kernel_memory::ROW,
    scaling::ROW,
    many_tasks::ROW,
    list_latency::ROW,
    top_screen::ROW,
    web_page::ROW,
    recovery::ROW,
    stall_detection::ROW,
    token_usage::ROW,
    guard::ROW,
    agent_loop::ROW,
];

/// Returns the rows whose names are in `names`, or all rows if `names` is empty.
pub(super) fn selected_rows(names: &[String]) -> impl Iterator<Item = &'static Row> {
    ALL_ROWS.iter().filter(move |row| names.is_empty() || names.iter().any(|name| name == row.name))
}

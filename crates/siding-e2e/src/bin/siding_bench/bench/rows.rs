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
mod slurm_tasks;
mod ssh_tasks;
mod stall_detection;
mod start_latency;
mod terminal_tokens;
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

/// The rows that are measured if no row is selected, in the order of the table.
pub(super) const DEFAULT_ROWS: &[Row] = &[
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

/// The rows about executors, which need an sshd or Slurm and take many minutes.
pub(super) const ENGINE_ROWS: &[Row] = &[ssh_tasks::ROW, slurm_tasks::ROW];

/// The row about programs in a terminal, whose pauses with tmux take half an hour.
pub(super) const TERMINAL_ROWS: &[Row] = &[terminal_tokens::ROW];

/// Returns all rows, in the order of the table.
pub(super) fn all_rows() -> impl Iterator<Item = &'static Row> {
    DEFAULT_ROWS.iter().chain(ENGINE_ROWS).chain(TERMINAL_ROWS)
}

/// Returns the rows whose names are in `names`, or the default rows if `names` is empty.
pub(super) fn selected_rows(names: &[String]) -> impl Iterator<Item = &'static Row> {
    let defaults: &'static [Row] = if names.is_empty() { DEFAULT_ROWS } else { &[] };
    defaults.iter().chain(all_rows().filter(move |row| names.iter().any(|name| name == row.name)))
}

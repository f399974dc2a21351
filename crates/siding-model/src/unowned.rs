//! Unowned processes: processes that siding never started and whose host has ended.
//!
//! This module owns the rules ([`OrphanRule`]) and the decision about which process trees are
//! terminated and which are kept ([`select_orphan_trees`]). siding-core scans the processes and
//! sends the signals. In case of doubt a process is kept: a leftover helper only costs memory,
//! while a wrong kill may destroy a user's work.

mod facts;
mod policy;
mod rule;
mod unattended;

pub use facts::{KeepReason, KeptProcess, OrphanTree, ProcessInfo, ReapDecision, Requester};
pub use policy::select_orphan_trees;
pub use rule::{BadOrphanRule, OrphanRule, may_match_built_in};
pub use unattended::{OrphanReport, OrphanReports, ReportAudience, UnownedReapMode};

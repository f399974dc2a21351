//! Foreign orphans: what siding never started, and whose host is gone.
//!
//! Owns the rules ([`Rule`]) and the decision ([`decide()`]) which trees of processes go and why
//! others stay. Facts come in, verdicts go out; siding-core looks and acts. Everything unknown or
//! in doubt stays: a helper that lives on costs memory, a wrong kill costs somebody's work.

mod facts;
mod policy;
mod rule;
mod unattended;

pub use facts::{KeepReason, KeptProcess, OrphanTree, ProcessInfo, ReapDecision, Requester};
pub use policy::select_orphan_trees;
pub use rule::{BadOrphanRule, OrphanRule, may_match_built_in};
pub use unattended::{OrphanReport, OrphanReports, ReportAudience, UnownedReapMode};

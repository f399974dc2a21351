//! Foreign orphans: what siding never started, and whose host is gone.
//!
//! Owns the rules ([`Rule`]) and the decision ([`decide()`]) which trees of processes go and why
//! others stay. Facts come in, verdicts go out; siding-core looks and acts. Everything unknown or
//! in doubt stays: a helper that lives on costs memory, a wrong kill costs somebody's work.

mod decide;
mod facts;
mod rule;
mod unattended;

pub use decide::decide;
pub use facts::{Process, Spared, Tree, Verdicts, Viewer, Why};
pub use rule::{BadRule, Rule, may_fit_built_in};
pub use unattended::{ForeignReap, Reader, Report, Reports};

//! Tools every process test of siding uses, and the two programs those tests run.
//!
//! - [`Sandbox`]: a temporary state root and home, an empty environment, and the promise that
//!   no process outlives the test.
//! - [`Invocation`], [`Running`], [`Finished`]: one call of `siding-under-test` or `puppet`.
//! - [`eventually()`], [`eventually_some`]: waiting with a long deadline and a short poll.
//! - [`processes`]: what the kernel says about processes, read without any of siding's code, so
//!   that a fault in siding cannot hide itself.
//! - [`Ground`]: a control group of the test, given away as systemd gives them.
//! - [`mounts`]: file systems that one test alone sees.
//! - [`Terminal`]: a terminal, and what it shows.
//! - [`scripted_server()`]: an MCP server that fails as it is told.
//! - [`Announced`]: the lines by which `puppet` tells what it does.
//! - [`corpus`]: ends of output that are prompts, and that only look so.
//! - [`judged`]: commands that a person should see first, and everyday ones.
//! - [`stalls`]: real programs that wait, and what siding must say of each.
//! - [`fill`] and [`tree`]: the pure plans behind puppet's output and its random process trees,
//!   so that a test can say beforehand what must come.
//!
//! The verbs of `puppet` are described in the module documentation of the program itself
//! (`src/puppet/mod.rs`). Nothing here is shipped, and nothing here may be needed by what is.
//!
//! ```no_run
//! use siding_e2e::{Sandbox, processes, words};
//!
//! let mut sandbox = Sandbox::new();
//! sandbox.expect_clean();
//! let line = sandbox.puppet_line(&words("fork setsid mark child hang -- hang"));
//! let started = sandbox.siding(&["run", "--background", "--json", "--", &line]).run();
//! let child = sandbox.marked("child");
//! let id = started.json()["task_id"].as_str().expect("a task id").to_owned();
//! let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
//! assert!(!processes::alive(child.pid, child.start));
//! ```

mod agent_server;
pub mod announced;
mod capture;
pub mod corpus;
mod denied;
mod directory;
mod eventually;
pub mod fill;
mod finished;
pub mod ground;
pub mod judged;
mod leftovers;
mod mcp_server;
pub mod mounts;
pub mod processes;
mod programs;
mod quoting;
mod sandbox;
mod siding;
pub mod stalls;
mod terminal;
pub mod tree;
mod witness;

pub use agent_server::AgentServer;
pub use announced::Announced;
pub use eventually::{POLL_DEADLINE, eventually, eventually_some};
pub use finished::Finished;
pub use ground::{Given, Ground};
pub use leftovers::ending_marker;
pub use mcp_server::{scripted_server, scripted_server_says};
pub use processes::Process;
pub use programs::is_root;
pub use quoting::words;
pub use sandbox::Sandbox;
pub use siding::{Invocation, Running};
pub use terminal::Terminal;

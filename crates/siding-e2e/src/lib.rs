//! Tools every process test of siding uses, and the two programs those tests run.
//!
//! - [`Sandbox`]: a temporary state root and home, an empty environment, and the promise that
//!   no process outlives the test.
//! - [`Invocation`], [`RunningProgram`], [`ProgramOutput`]: one call of `siding-under-test` or `puppet`.
//! - [`eventually()`], [`eventually_some`]: waiting with a long deadline and a short poll.
//! - [`processes`]: what the kernel says about processes, read without any of siding's code, so
//!   that a fault in siding cannot hide itself.
//! - [`TestCgroup`]: a control group of the test, given away as systemd gives them.
//! - [`mounts`]: file systems that one test alone sees.
//! - [`Terminal`]: a terminal, and what it shows.
//! - [`scripted_server()`]: an MCP server that fails as it is told.
//! - [`Announcement`]: the lines by which `puppet` tells what it does.
//! - [`prompt_corpus`]: ends of output that are prompts, and that only look so.
//! - [`guard_corpus`]: commands that a person should see first, and everyday ones.
//! - [`stall_cases`]: real programs that wait, and what siding must say of each.
//! - [`fill_pattern`] and [`tree_plan`]: the pure plans behind puppet's output and its random process trees,
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
pub mod announcement;
mod child_stdio;
mod eventually;
pub mod fill_pattern;
pub mod guard_corpus;
mod invocation;
mod leftover_processes;
pub mod mounts;
pub mod processes;
mod program_output;
mod programs;
pub mod prompt_corpus;
mod puppet_announcements;
mod sandbox;
mod sandbox_dir;
mod scripted_mcp_server;
mod seccomp;
mod shell_words;
pub mod stall_cases;
mod terminal;
pub mod test_cgroup;
pub mod tree_plan;

pub use agent_server::AgentServer;
pub use announcement::Announcement;
pub use eventually::{POLL_DEADLINE, eventually, eventually_some};
pub use invocation::{Invocation, RunningProgram};
pub use leftover_processes::shutdown_marker;
pub use processes::Process;
pub use program_output::ProgramOutput;
pub use programs::is_root;
pub use sandbox::Sandbox;
pub use scripted_mcp_server::{set_scripted_server_state, write_scripted_server};
pub use shell_words::words;
pub use terminal::Terminal;
pub use test_cgroup::{CgroupOwner, TestCgroup};

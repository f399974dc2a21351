//! The tools of siding's process tests, and the two programs that those tests run.
//!
//! - [`Sandbox`]: a temporary state directory and home, a private environment, and the guarantee
//!   that no process outlives the test.
//! - [`Invocation`], [`RunningProgram`], [`ProgramOutput`]: one call of `siding-under-test`, of
//!   `puppet`, or of a program in the role of the host.
//! - [`eventually()`], [`eventually_some`]: waiting with a long deadline and short polls.
//! - [`processes`]: the state of processes, read from `/proc` without any of siding's code, so that
//!   a bug in siding cannot hide itself.
//! - [`TestCgroup`]: a control group for one test, delegated as systemd delegates groups.
//! - [`mounts`]: file systems that only one test sees.
//! - [`Terminal`]: a pseudoterminal and the contents of its screen.
//! - [`output_schema()`]: the committed schema of a command's JSON output.
//! - [`AgentServer`]: an A2A server with a scripted agent.
//! - [`write_scripted_server()`]: an MCP server whose answers and failures a test sets.
//! - [`forge_task_name`]: a task whose journal has a name that siding refuses.
//! - [`Announcement`]: a line in which `puppet` announces a step.
//! - [`prompt_corpus`]: ends of programs' output that are prompts, and others that only resemble
//!   prompts.
//! - [`guard_corpus`]: commands that a person should see before they run, and everyday commands.
//! - [`stall_cases`]: real programs that wait, and the verdict that siding must give for each.
//! - [`fill_pattern`] and [`tree_plan`]: the pure plans of puppet's output and of its random
//!   process trees, from which a test knows the expected result in advance.
//!
//! The module documentation in `src/bin/puppet/puppet.rs` describes the verbs of `puppet`. This
//! crate is never shipped, and no shipped crate may depend on it.
//!
//! ```no_run
//! use siding_e2e::{Sandbox, processes, words};
//!
//! let mut sandbox = Sandbox::new();
//! sandbox.expect_clean();
//! let line = sandbox.puppet_line(&words("fork setsid mark child hang -- hang"));
//! let started = sandbox.siding(&["run", "--background", "--json", "--", &line]).run();
//! let child = sandbox.wait_for_mark("child");
//! let id = started.json()["task_id"].as_str().expect("a task id").to_owned();
//! let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
//! assert!(!processes::is_alive(child.pid, child.start));
//! ```

mod agent_server;
pub mod announcement;
mod cgroup_dir;
mod child_stdio;
mod eventually;
pub mod fill_pattern;
mod forged_name;
pub mod guard_corpus;
mod invocation;
mod leftover_processes;
pub mod mounts;
mod output_schema;
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
pub use forged_name::{forge_task_name, stand_in_name};
pub use invocation::{Invocation, RunningProgram};
pub use leftover_processes::shutdown_marker;
pub use output_schema::output_schema;
pub use processes::Process;
pub use program_output::ProgramOutput;
pub use programs::is_root;
pub use sandbox::Sandbox;
pub use scripted_mcp_server::{set_scripted_server_state, write_scripted_server};
pub use shell_words::words;
pub use terminal::Terminal;
pub use test_cgroup::{CgroupOwner, TestCgroup};

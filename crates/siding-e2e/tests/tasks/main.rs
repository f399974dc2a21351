//! What a person or a host can do with a task: run it, hand it over, stop it, let it meet its
//! deadline. Every test runs the real program in a sandbox of its own.
//!
//! The bounds on time are for a machine that does other things too: a lower bound is what was
//! promised, an upper one only tells a hang from a slow machine. What was measured is printed.

mod cgroup_cleanup;
mod cgroups;
mod deadline;
mod exit_codes;
mod fork_storms;
mod handover;
mod interrupts;
mod lingering;
mod nested_tasks;
mod output_readers;
mod random_trees;
mod run;
mod shell_bypass;
mod shells;
mod start;
mod stdin;
mod stop;
mod stop_race;
mod support;
mod survivors;

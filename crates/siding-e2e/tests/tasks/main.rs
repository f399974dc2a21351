//! What a person or a host can do with a task: run it, hand it over, stop it, let it meet its
//! deadline. Every test runs the real program in a sandbox of its own.
//!
//! The bounds on time are for a machine that does other things too: a lower bound is what was
//! promised, an upper one only tells a hang from a slow machine. What was measured is printed.

mod deadline;
mod exit_codes;
mod groups;
mod groups_left;
mod handover;
mod interrupts;
mod lingering;
mod nested;
mod plain;
mod readers;
mod run;
mod shells;
mod start;
mod stdin;
mod stop;
mod stop_race;
mod storms;
mod support;
mod survivors;
mod trees;

//! Tests of running, handing over and stopping a task, and of its deadline. Every test runs the
//! real program in its own sandbox. The time bounds allow for a busy machine: a lower bound tests a
//! promise of siding, whereas an upper bound only distinguishes a hang from a slow machine. The
//! tests print the measured times.

mod cgroup_cleanup;
mod cgroups;
mod deadline;
mod exit_codes;
mod fork_storms;
mod handover;
mod interrupts;
mod keyboard;
mod lingering;
mod nested_tasks;
mod output_readers;
mod person_terminal;
mod progress;
mod random_trees;
mod run;
mod separate_streams;
mod shell_bypass;
mod shells;
mod start;
mod stdin;
mod stop;
mod stop_race;
mod support;
mod survivors;

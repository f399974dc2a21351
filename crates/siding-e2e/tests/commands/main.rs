//! What each command shows its user: a person at a terminal of 80 columns, or a program that
//! reads JSON and branches on exit codes. Every test runs the real program in a sandbox of its
//! own. How tasks run and end is tested elsewhere (`tests/tasks`, `tests/crashes`).

mod columns;
mod completions;
mod config;
mod deadline_notice;
mod doctor;
mod extend;
mod foreign;
mod guard;
mod help;
mod history;
mod ids;
mod input;
mod install;
mod install_options;
mod man;
mod monitor;
mod notices;
mod output;
mod ps;
mod ready;
mod reap;
mod report;
mod session;
mod show;
mod support;
mod unattended;
mod wait;
mod wait_for;
mod webhook;

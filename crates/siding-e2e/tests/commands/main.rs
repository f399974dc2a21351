//! Tests of each command's output, for a person at a terminal of 80 columns and for a program that
//! reads JSON and branches on exit codes. Every test runs the real program in its own sandbox.
//! `tests/tasks` and `tests/crashes` test how tasks run and end.

mod automatic_reap;
mod completions;
mod config;
mod deadline_notice;
mod doctor;
mod documents;
mod eighty_columns;
mod export_otlp;
mod extend;
mod guard;
mod guard_advice;
mod help;
mod history;
mod id_prefix;
mod input;
mod install;
mod install_options;
mod man_pages;
mod metrics;
mod monitor;
mod narrow_terminal;
mod not_found;
mod notice_text;
mod notices;
mod output;
mod output_at_terminal;
mod port_conflict;
mod ps;
mod ps_watch;
mod readiness;
mod reap;
mod reap_unowned;
mod report;
mod schema;
mod session;
mod show;
mod stop;
mod support;
mod system_log;
mod timeline;
mod top;
mod wait;
mod wait_for;
mod webhook;

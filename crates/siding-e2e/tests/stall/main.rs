//! A quiet task: why it is, who is told, and who is not.

mod command;
mod corpus;
mod programs;
mod records;
mod support;

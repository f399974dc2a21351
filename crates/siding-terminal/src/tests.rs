//! Tests the emulator with random output, against a second emulator, and with real files.

mod differential;
mod fuzz;
mod generator;
mod hard_cases;
mod properties;
mod replay;

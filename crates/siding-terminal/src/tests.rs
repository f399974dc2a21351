//! Tests the emulator with random output, with recorded output, against a second emulator, and with
//! real files.

mod alternate_screen;
mod corpus;
mod differential;
mod fuzz;
mod generator;
mod hard_cases;
mod properties;
mod replay;

//! cli
/// Main.
#[must_use] pub fn main() -> std::process::ExitCode { std::process::ExitCode::SUCCESS }

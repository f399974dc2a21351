//! `siding`, the program.
fn main() -> std::process::ExitCode {
    siding_cli::main()
}

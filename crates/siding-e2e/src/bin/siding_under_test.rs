//! `siding` as the tests run it.
fn main() -> std::process::ExitCode {
    siding_cli::main()
}

//! `siding` for the tests: the same program, built with the feature `pause-points`.
fn main() -> std::process::ExitCode {
    siding_cli::main()
}

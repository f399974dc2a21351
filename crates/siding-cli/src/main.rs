//! The program `siding`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    siding_cli::main()
}

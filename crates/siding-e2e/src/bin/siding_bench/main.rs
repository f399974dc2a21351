//! `siding-bench`, the measurements behind `cargo xtask bench`; see [`mod@bench`].

mod bench;

fn main() -> std::process::ExitCode {
    bench::main(std::env::args().skip(1).collect())
}

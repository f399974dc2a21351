//! Parses the command line of `siding-bench`.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use super::BenchMode;
use super::rows;

#[derive(Debug)]
pub(super) struct BenchOptions {
    /// Names of the selected rows; empty selects the default rows.
    pub(super) rows: Vec<String>,
    pub(super) mode: BenchMode,
    pub(super) json: bool,
    /// The siding program under measurement.
    pub(super) siding: PathBuf,
}

pub(super) fn is_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

pub(super) fn usage() -> String {
    let mut text = String::from(
        "Usage: siding-bench [--quick] [--json] [--stall] [--tokens] [--guard]\n         [--engines] [--terminals] [--siding PROGRAM] [ROW...]\n\n\
         Measures PROGRAM (default: `siding` next to this program). Rows:\n",
    );
    for row in rows::all_rows() {
        text.push_str(&format!("  {:<11}{}\n", row.name, row.about));
    }
    text
}

impl BenchOptions {
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let own = std::env::current_exe().context("the running program has no path")?;
        let mut request = Self {
            rows: vec![],
            mode: BenchMode::Full,
            json: false,
            siding: own.with_file_name("siding"),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--stall" => request.rows.push("stall".to_owned()),
                "--guard" => request.rows.push("guard".to_owned()),
                "--tokens" => request.rows.push("tokens".to_owned()),
                "--engines" => {
                    let names = rows::ENGINE_ROWS.iter().map(|row| row.name.to_owned());
                    request.rows.extend(names);
                }
                "--terminals" => {
                    let names = rows::TERMINAL_ROWS.iter().map(|row| row.name.to_owned());
                    request.rows.extend(names);
                }
                "--quick" => request.mode = BenchMode::Quick,
                "--json" => request.json = true,
                "--siding" => {
                    request.siding = words.next().context("--siding needs a path")?.into();
                }
                name if rows::all_rows().any(|row| row.name == name) => {
                    request.rows.push(name.to_owned());
                }
                unknown => bail!("no row or option `{unknown}`\n\n{}", usage()),
            }
        }
        Ok(request)
    }

    /// Fails when the program under measurement does not exist.
    pub(super) fn ensure_program_exists(&self) -> Result<()> {
        ensure!(
            self.siding.is_file(),
            "`{}` does not exist; `cargo build --release -p siding-cli` builds it",
            self.siding.display()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_names(words: &[&str]) -> Vec<&'static str> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let options = BenchOptions::parse(&words).expect("valid words");
        rows::selected_rows(&options.rows).map(|row| row.name).collect()
    }

    #[test]
    fn the_rows_that_take_many_minutes_are_measured_only_on_request() {
        let all = row_names(&[]);
        assert!(all.contains(&"true"));
        let on_request = ["ssh", "slurm", "terminals"];
        assert!(!all.iter().any(|name| on_request.contains(name)));
        assert_eq!(row_names(&["--terminals"]), ["terminals"]);
        assert_eq!(row_names(&["--engines"]), ["ssh", "slurm"]);
        assert_eq!(row_names(&["ssh", "true"]), ["true", "ssh"]);
    }
}

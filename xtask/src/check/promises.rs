//! Checks that the tests that `docs/promises.md` cites exist, and that the page contains every
//! number that other files cite.
//!
//! The page has three kinds of rows. A row is a line of a table whose first cell is a number
//! such as `P12`:
//!
//! ```text
//! | P12 | promise | kernel facts      | tests |
//! | F7  | failure | public issues     | prevented by | tests |
//! | K3  | fact    | source            | where it matters |
//! ```
//!
//! A tests cell contains `none yet`, or code spans of the form `crate/path/file.rs: function`,
//! separated by commas. The paths are relative to `crates/`. Comments and documents cite a row as
//! `promise P12`, `failures F3 and F7` or `kernel fact K3`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Path of the page, relative to the root of the workspace.
const PAGE: &str = "docs/promises.md";

/// The content of the tests cell in a row without a test.
const NO_TEST: &str = "none yet";

/// Exact number of promises and failures without a test. The commit that adds a missing test must
/// lower this constant, so that the number cannot rise again.
const MAX_WITHOUT_TEST: usize = 0;

/// Directories whose files may cite rows, in addition to the files in the root directory.
const CITING: &[&str] = &["crates", "docs", "tools"];

/// Extensions of the files that may cite rows.
const CITING_EXTENSIONS: &[&str] = &["md", "py", "rs", "sh", "toml"];

/// Rejects rows that cite a test which does not exist, citations of numbers that are not on the
/// page, and any number of rows without a test other than [`MAX_WITHOUT_TEST`].
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let page = read(&workspace.root.join(PAGE))?;
    let rows = parse_rows(&page);
    let crates = workspace.root.join("crates");
    let mut sources: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut find_source = |path: &str| {
        let load = || std::fs::read_to_string(crates.join(path)).ok();
        sources.entry(path.to_owned()).or_insert_with(load).clone()
    };
    let mut faults = duplicates(&rows);
    for row in &rows {
        faults.extend(row_faults(row, &mut find_source));
    }
    let prefixed = faults.into_iter().map(|(line, fault)| format!("{PAGE}:{line}: {fault}"));
    let mut faults: Vec<String> = prefixed.collect();

    let known: BTreeSet<&str> = rows.iter().map(|row| row.number.as_str()).collect();
    let mut cited = 0;
    for path in citing_files(&workspace.root)? {
        let text = read(&path)?;
        let path = workspace.relative(&path).display().to_string();
        for (line, number) in citations(&text) {
            cited += 1;
            if !known.contains(number.as_str()) {
                faults.push(format!("{path}:{line}: {PAGE} has no `{number}`"));
            }
        }
    }
    for fault in &faults {
        println!("  {fault}");
    }
    if !faults.is_empty() {
        bail!("{} places where the page, its tests and its citations disagree", faults.len());
    }
    let without = rows.iter().filter(|row| row.tests() == Some(NO_TEST)).count();
    match without {
        MAX_WITHOUT_TEST => {}
        more if more > MAX_WITHOUT_TEST => bail!(
            "{more} promises say `{NO_TEST}`, at most {MAX_WITHOUT_TEST} may: add a test instead"
        ),
        fewer => bail!(
            "{fewer} promises say `{NO_TEST}`: set MAX_WITHOUT_TEST in \
             xtask/src/check/promises.rs to {fewer}, so that their number cannot rise again"
        ),
    }
    let count = |kind: Kind| rows.iter().filter(|row| row.kind == kind).count();
    let (promises, failures) = (count(Kind::Promise), count(Kind::Failure));
    Ok(StepOutcome::PassedWithNote(format!(
        "promises: {promises}, failures: {failures}, without a test: {without}, cited: {cited}"
    )))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Promise,
    Failure,
    KernelFact,
}

impl Kind {
    /// Returns the kind of row whose numbers begin with this letter.
    fn of_letter(letter: char) -> Option<Self> {
        match letter {
            'P' => Some(Self::Promise),
            'F' => Some(Self::Failure),
            'K' => Some(Self::KernelFact),
            _ => None,
        }
    }

    /// Returns the number of cells in a row of this kind, including the cell of its number.
    fn cells(self) -> usize {
        match self {
            Self::Promise | Self::KernelFact => 4,
            Self::Failure => 5,
        }
    }
}

/// A numbered row of the page.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    kind: Kind,
    number: String,
    cells: Vec<String>,
}

impl Row {
    /// Returns the tests cell, or `None` for a kernel fact, which has no such cell.
    fn tests(&self) -> Option<&str> {
        match self.kind {
            Kind::Promise | Kind::Failure => self.cells.last().map(String::as_str),
            Kind::KernelFact => None,
        }
    }
}

/// Returns the numbered rows of the page, in order.
fn parse_rows(page: &str) -> Vec<Row> {
    let numbered = page.lines().enumerate().filter_map(|(at, line)| {
        let cells = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        let cells: Vec<String> = cells.split('|').map(|cell| cell.trim().to_owned()).collect();
        let number = cells.first()?.clone();
        let kind = kind_of_number(&number)?;
        Some(Row { line: at + 1, kind, number, cells })
    });
    numbered.collect()
}

/// Returns the kind of a row's number such as `P12`, or `None` for a text of another form.
fn kind_of_number(number: &str) -> Option<Kind> {
    let mut letters = number.chars();
    let kind = Kind::of_letter(letters.next()?)?;
    let digits = letters.as_str();
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit());
    is_number.then_some(kind)
}

/// Returns an error, with its line, for each row whose number occurs in an earlier row.
fn duplicates(rows: &[Row]) -> Vec<(usize, String)> {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for row in rows {
        if let Some(line) = first.insert(&row.number, row.line) {
            faults.push((row.line, format!("`{}` is already in line {line}", row.number)));
        }
    }
    faults
}

/// Returns the errors of a row, each with the row's line number. `find_source` returns the text of
/// a file below `crates/`.
fn row_faults(
    row: &Row,
    find_source: &mut impl FnMut(&str) -> Option<String>,
) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    if row.cells.len() != row.kind.cells() {
        let (found, wanted) = (row.cells.len(), row.kind.cells());
        faults.push(format!("`{}` has {found} cells instead of {wanted}", row.number));
    } else if let Some(tests) = row.tests().filter(|tests| *tests != NO_TEST) {
        let spans: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if spans.is_empty() {
            faults.push(format!("`{}` cites no test; write `{NO_TEST}`", row.number));
        }
        faults.extend(spans.iter().filter_map(|span| test_fault(span, find_source)));
    }
    faults.into_iter().map(|fault| (row.line, fault)).collect()
}

/// Returns the error of a citation of the form `file.rs: function`, or `None` if it names a test.
fn test_fault(
    citation: &str,
    find_source: &mut impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let Some((path, function)) = citation.split_once(": ") else {
        return Some(format!("`{citation}` is not of the form `file.rs: function`"));
    };
    match find_source(path) {
        None => Some(format!("there is no file `crates/{path}`")),
        Some(source) if has_test(&source, function) => None,
        Some(_) => Some(format!("`crates/{path}` has no test `{function}`")),
    }
}

/// Returns whether a source file has a test function of this name.
fn has_test(source: &str, function: &str) -> bool {
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            if rest.strip_prefix(function).is_some_and(|rest| rest.starts_with('(')) {
                return true;
            }
            is_test = false;
        }
    }
    false
}

/// Returns the files of the workspace that may cite rows, sorted.
fn citing_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut open: Vec<PathBuf> = CITING.iter().map(|name| root.join(name)).collect();
    let mut files = Vec::new();
    let mut add = |directory: &Path, open: Option<&mut Vec<PathBuf>>| -> Result<()> {
        let mut below = Vec::new();
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("could not list `{}`", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                below.push(path);
            } else if extension.is_some_and(|known| CITING_EXTENSIONS.contains(&known)) {
                files.push(path);
            }
        }
        if let Some(open) = open {
            open.append(&mut below);
        }
        Ok(())
    };
    add(root, None)?;
    while let Some(directory) = open.pop() {
        add(&directory, Some(&mut open))?;
    }
    files.sort();
    Ok(files)
}

/// Returns the numbers that a text cites, with their lines.
fn citations(text: &str) -> Vec<(usize, String)> {
    let mut cited = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split(|character: char| !character.is_ascii_alphanumeric());
        let mut expected = None;
        for word in words.filter(|word| !word.is_empty()) {
            let announced = match word.to_ascii_lowercase().as_str() {
                "promise" | "promises" => Some(Kind::Promise),
                "failure" | "failures" => Some(Kind::Failure),
                // A kernel fact is cited as `kernel fact K3`, so the word before the number is
                // `fact`.
                "fact" | "facts" => Some(Kind::KernelFact),
                _ => None,
            };
            if announced.is_some() {
                expected = announced;
            } else if expected.is_some() && kind_of_number(word) == expected {
                cited.push((at + 1, word.to_owned()));
            } else if word != "and" {
                expected = None;
            }
        }
    }
    cited
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// A test.
#[test]
fn stop_ends_a_tree() {}

fn helper() {}

    #[test]
    #[cfg(unix)]
    fn inner_test(value in any()) {}
";

    fn row(line: &str) -> Row {
        parse_rows(line).pop().unwrap()
    }

    fn faults(line: &str) -> Vec<String> {
        let mut find = |path: &str| (path == "a/tests/stop.rs").then(|| SOURCE.to_owned());
        row_faults(&row(line), &mut find).into_iter().map(|(_, fault)| fault).collect()
    }

    #[test]
    fn only_numbered_lines_of_tables_are_rows() {
        let page = "\
| # | promise | kernel facts | tests |
|---|---|---|---|
| P1 | starts | K1 | none yet |

P2 is no row, | Px | is none | either |
| F10 | hangs | a/b#1 | a file | none yet |
| K3 | a fact | wait(2) | the shim |
";
        let rows = parse_rows(page);
        let found: Vec<_> = rows.iter().map(|row| (row.line, row.number.as_str())).collect();
        assert_eq!(found, [(3, "P1"), (6, "F10"), (7, "K3")]);
        assert_eq!(rows[1].tests(), Some(NO_TEST));
        assert_eq!(rows[2].tests(), None);
        assert!(rows.iter().all(|row| row.cells.len() == row.kind.cells()));
    }

    #[test]
    fn a_number_may_stand_in_one_row_only() {
        let rows = parse_rows("| K1 | a | b | c |\n| K2 | a | b | c |\n| K1 | a | b | c |\n");
        assert_eq!(duplicates(&rows), [(3, "`K1` is already in line 1".to_owned())]);
    }

    #[test]
    fn cited_tests_must_exist() {
        let cites = |tests: &str| faults(&format!("| P1 | stops | K1 | {tests} |"));
        assert!(cites(NO_TEST).is_empty());
        assert!(cites("`a/tests/stop.rs: stop_ends_a_tree`").is_empty());
        let both = "`a/tests/stop.rs: stop_ends_a_tree`, `a/tests/stop.rs: inner_test`";
        assert!(cites(both).is_empty());
        assert_eq!(cites("`b/stop.rs: stop_ends_a_tree`"), ["there is no file `crates/b/stop.rs`"]);
        for name in ["helper", "stop_ends", "stop_ends_a_tree_at_once"] {
            let fault = format!("`crates/a/tests/stop.rs` has no test `{name}`");
            assert_eq!(cites(&format!("`a/tests/stop.rs: {name}`")), [fault]);
        }
        assert_eq!(cites("`stop.rs`"), ["`stop.rs` is not of the form `file.rs: function`"]);
    }

    #[test]
    fn a_row_without_tests_says_so() {
        assert_eq!(faults("| P1 | stops | K1 | |"), ["`P1` cites no test; write `none yet`"]);
        assert_eq!(faults("| F1 | stops | none yet |"), ["`F1` has 3 cells instead of 5"]);
        assert!(faults("| K1 | a fact | wait(2) | the shim |").is_empty());
    }

    #[test]
    fn citations_are_found_in_every_form() {
        let text = "\
/// Promise P12: the deadline holds (failures F3, F7 and F9).
// See kernel facts K1 and K2. F5 and P9 do not follow such a word.
/// A failure of F1 is not cited, nor is promise F2.
";
        let expected = ["P12", "F3", "F7", "F9", "K1", "K2"];
        let found = citations(text);
        assert_eq!(found.iter().map(|(_, number)| number).collect::<Vec<_>>(), expected);
        assert_eq!(found[0].0, 1);
        assert_eq!(found[4].0, 2);
    }
}

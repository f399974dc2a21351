//! Limits the size of source files. Clippy limits functions, parameters and nesting
//! (`clippy.toml`).

use anyhow::{Context, Result, anyhow, bail};
use syn::Item;

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Maximum number of lines of a file, without the unit tests in it.
const MAX_FILE_LINES: usize = 500;

/// Rejects files that are longer than [`MAX_FILE_LINES`], and files called `mod.rs`, which look
/// alike in editors and messages.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut violations = Vec::new();
    for member in workspace.metadata.members.values() {
        for path in workspace.rust_files(&member.directory)? {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("could not read `{}`", path.display()))?;
            let shown = workspace.relative(&path).display();
            if path.ends_with("mod.rs") {
                violations
                    .push(format!("{shown}: name it after its module, next to its directory"));
            }
            let lines = lines_without_unit_tests(&text)
                .map_err(|error| anyhow!("{shown} is not Rust: {error}"))?;
            if lines > MAX_FILE_LINES {
                violations.push(format!("{shown}: {lines} lines, at most {MAX_FILE_LINES}"));
            }
        }
    }
    for violation in &violations {
        println!("  {violation}");
    }
    if !violations.is_empty() {
        bail!("files that break the rule: {}; split a long one by subject", violations.len());
    }
    Ok(StepOutcome::Passed)
}

/// Counts the lines of a file outside its top-level `#[cfg(test)]` modules.
fn lines_without_unit_tests(text: &str) -> syn::Result<usize> {
    let file = syn::parse_file(text)?;
    let in_tests: usize = file.items.iter().filter_map(unit_test_lines).sum();
    Ok(text.lines().count() - in_tests)
}

/// Returns the number of lines of an item that is a module of unit tests; `None` for any other
/// item.
fn unit_test_lines(item: &Item) -> Option<usize> {
    let Item::Mod(module) = item else { return None };
    let is_test = |attribute: &&syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "test")
    };
    let attribute = module.attrs.iter().find(is_test)?;
    let (brace, _) = module.content.as_ref()?;
    let (first, last) = (attribute.pound_token.span.start(), brace.span.close().end());
    Some(last.line + 1 - first.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> usize {
        lines_without_unit_tests(text).expect("it is Rust")
    }

    #[test]
    fn unit_tests_do_not_count() {
        let code = "/// Docs.\n\nfn a() {}\n";
        let tests = "#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(lines(code), 3);
        assert_eq!(lines(&format!("{code}{tests}")), 3);
        assert_eq!(lines(&format!("{tests}{code}")), 3);
    }

    #[test]
    fn other_modules_count() {
        assert_eq!(lines("mod a {\n    fn b() {}\n}\n"), 3);
        assert_eq!(lines("#[cfg(unix)]\nmod a {\n}\n"), 3);
        assert_eq!(lines("#[cfg(test)]\nmod tests;\n"), 2);
    }
}

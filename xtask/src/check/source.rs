//! Where unsafe code and calls of the operating system may stand.
//!
//! Reads words, not text ([`tokens`](super::tokens)), so a comment may speak of `unsafe`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::tokens::{Token, tokenize};
use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// The one place for both.
const SYS_PATHS: &[&str] = &["crates/siding-core/src/sys", "crates/siding-core/src/sys.rs"];

/// The crate that owns that place. It cannot forbid unsafe code as a whole, and it alone of the
/// shipped crates has the means to call the system ([`crates`](super::crates) sees to that).
const SYS_CRATE: &str = "siding-core";

/// Never shipped: its programs misbehave on purpose, with every means.
const E2E_CRATE: &str = "siding-e2e";

/// Names that stand for a call of the operating system.
const OS_CALL_CRATES: &[&str] = &["libc", "rustix", "nix"];

/// Denies unsafe code and OS calls anywhere else.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut violations = Vec::new();
    for (name, member) in &workspace.metadata.members {
        if name == E2E_CRATE {
            continue;
        }
        if name != SYS_CRATE {
            for root in &member.root_files {
                if !forbids_unsafe(&tokenize(&read_source(root)?)) {
                    let root = workspace.relative(root).display();
                    violations.push(format!("{root}: needs `#![forbid(unsafe_code)]`"));
                }
            }
        }
        for path in rust_files(&member.directory)? {
            let relative = workspace.relative(&path);
            if SYS_PATHS.iter().any(|sys| relative.starts_with(sys)) {
                continue;
            }
            let source = read_source(&path)?;
            let tokens = tokenize(&source);
            let mut found = find_unsafe_code(&tokens);
            if name == SYS_CRATE {
                found.extend(find_os_calls(&tokens));
            }
            let path = relative.display();
            violations
                .extend(found.iter().map(|found| format!("{path}:{}: {}", found.line, found.text)));
        }
    }
    for violation in &violations {
        println!("  {violation}");
    }
    if !violations.is_empty() {
        bail!("places that break the rule: {}; only {} may", violations.len(), SYS_PATHS[0]);
    }
    Ok(StepOutcome::Passed)
}

/// Returns whether `#![forbid(unsafe_code)]` is there.
fn forbids_unsafe(tokens: &[Token<'_>]) -> bool {
    let wanted = ["#", "!", "[", "forbid", "(", "unsafe_code", ")", "]"];
    tokens.windows(wanted.len()).any(|window| window.iter().map(|token| token.text).eq(wanted))
}

/// Returns every `unsafe`, in unit tests too.
fn find_unsafe_code<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    tokens.iter().copied().filter(|token| token.text == "unsafe").collect()
}

/// Returns every name that stands for a call of the system, those in unit tests left out.
fn find_os_calls<'s>(tokens: &[Token<'s>]) -> Vec<Token<'s>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(length) = test_item_tokens(&tokens[at..]) {
            at += length;
            continue;
        }
        if OS_CALL_CRATES.contains(&tokens[at].text) {
            found.push(tokens[at]);
        }
        at += 1;
    }
    found
}

/// Returns how many tokens the `#[cfg(test)]` item at the start has, or `None` if there is none.
fn test_item_tokens(tokens: &[Token<'_>]) -> Option<usize> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    if !tokens.iter().map(|token| token.text).take(attribute.len()).eq(attribute) {
        return None;
    }
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(attribute.len()) {
        match token.text {
            "{" => depth += 1,
            "}" if depth <= 1 => return Some(at + 1),
            "}" => depth -= 1,
            ";" if depth == 0 => return Some(at + 1),
            _ => {}
        }
    }
    Some(tokens.len())
}

/// Returns every Rust file of a package.
fn rust_files(package: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![package.to_path_buf()];
    while let Some(directory) = open.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("could not list `{}`", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn read_source(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("could not read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Token<'_>]) -> Vec<usize> {
        found.iter().map(|token| token.line).collect()
    }

    #[test]
    fn unsafe_code_is_found_in_every_form() {
        for source in [
            "fn f() { unsafe { g() } }",
            "unsafe fn f() {}",
            "unsafe extern \"C\" { fn f(); }",
            "#[unsafe(no_mangle)] fn f() {}",
            "#[cfg(test)] mod tests { fn f() { unsafe { g() } } }",
        ] {
            assert_eq!(lines(&find_unsafe_code(&tokenize(source))), [1], "{source}");
        }
    }

    #[test]
    fn unsafe_in_comments_and_strings_is_allowed() {
        let source = "// unsafe\n#![forbid(unsafe_code)] const A: &str = \"unsafe\";";
        assert!(find_unsafe_code(&tokenize(source)).is_empty());
    }

    #[test]
    fn os_calls_are_found_outside_tests_only() {
        let module = "use std::io;\n#[cfg(test)]\nmod tests {\n use rustix::fs; fn g() {}\n}\n\
                      fn h() { libc::getpid() }";
        assert_eq!(lines(&find_os_calls(&tokenize(module))), [6]);
        let imports = "#[cfg(test)]\nuse libc::getpid;\nuse rustix::io;";
        assert_eq!(lines(&find_os_calls(&tokenize(imports))), [3]);
        let file = "#[cfg(test)] mod tests;\nfn f() { rustix::fs::sync() }";
        assert_eq!(lines(&find_os_calls(&tokenize(file))), [2]);
    }

    #[test]
    fn only_the_inner_attribute_forbids_unsafe() {
        assert!(forbids_unsafe(&tokenize("//! Docs.\n#![forbid(unsafe_code)]\nmod a;")));
        assert!(!forbids_unsafe(&tokenize("//! #![forbid(unsafe_code)]\nmod a;")));
        assert!(!forbids_unsafe(&tokenize("#[forbid(unsafe_code)] mod a {}")));
    }
}

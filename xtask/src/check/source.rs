//! Checks that unsafe code and system calls occur only in the allowed files.
//!
//! The check reads tokens ([`tokens`](super::tokens)), so a comment may mention `unsafe`.

use anyhow::{Result, bail};
use proc_macro2::{Ident, TokenStream, TokenTree};

use super::tokens::{identifiers, read, without_unit_tests};
use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// The only files of shipped crates that may contain unsafe code and system calls.
const SYS_PATHS: &[&str] = &["crates/siding-core/src/sys", "crates/siding-core/src/sys.rs"];

/// The crate that contains [`SYS_PATHS`]. This crate cannot forbid unsafe code as a whole. It is
/// the only shipped crate that may depend on libc or rustix ([`crates`](super::crates) checks
/// this).
const SYS_CRATE: &str = "siding-core";

/// The crate of the end-to-end tests. It is not shipped. The programs in this crate misbehave on
/// purpose and may make system calls anywhere.
const E2E_CRATE: &str = "siding-e2e";

/// Crates that are interfaces to system calls. Any use of such a name counts as a system call.
const OS_CALL_CRATES: &[&str] = &["libc", "rustix", "nix"];

/// Rejects unsafe code and system calls outside of [`SYS_PATHS`], and crates without
/// `#![forbid(unsafe_code)]` other than [`SYS_CRATE`]. [`E2E_CRATE`] is not checked. System calls
/// are searched for only in [`SYS_CRATE`], because the others may not depend on [`OS_CALL_CRATES`].
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut violations = Vec::new();
    for (name, member) in &workspace.metadata.members {
        if name == E2E_CRATE {
            continue;
        }
        if name != SYS_CRATE {
            for root in &member.root_files {
                if !forbids_unsafe(read(root)?) {
                    let root = workspace.relative(root).display();
                    violations.push(format!("{root}: needs `#![forbid(unsafe_code)]`"));
                }
            }
        }
        for path in workspace.rust_files(&member.directory)? {
            let relative = workspace.relative(&path);
            if SYS_PATHS.iter().any(|sys| relative.starts_with(sys)) {
                continue;
            }
            let stream = read(&path)?;
            let mut found = unsafe_code(&stream);
            if name == SYS_CRATE {
                found.extend(os_calls(stream));
            }
            let path = relative.display();
            violations.extend(
                found.iter().map(|word| format!("{path}:{}: {word}", word.span().start().line)),
            );
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

/// Returns whether the file has the inner attribute `#![forbid(unsafe_code)]`.
fn forbids_unsafe(stream: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    tokens.windows(3).any(|window| {
        let [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)] = window
        else {
            return false;
        };
        (hash.as_char(), bang.as_char()) == ('#', '!')
            && group.stream().to_string() == "forbid (unsafe_code)"
    })
}

/// Returns every `unsafe`, including those in unit tests.
fn unsafe_code(stream: &TokenStream) -> Vec<Ident> {
    identifiers(stream).into_iter().filter(|word| word == "unsafe").collect()
}

/// Returns every use of a crate in [`OS_CALL_CRATES`] outside unit tests.
fn os_calls(stream: TokenStream) -> Vec<Ident> {
    let is_os_name = |word: &Ident| OS_CALL_CRATES.iter().any(|name| word == name);
    identifiers(&without_unit_tests(stream)).into_iter().filter(is_os_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(source: &str) -> TokenStream {
        source.parse().expect("it is Rust")
    }

    fn lines(found: &[Ident]) -> Vec<usize> {
        found.iter().map(|word| word.span().start().line).collect()
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
            assert_eq!(lines(&unsafe_code(&stream(source))), [1], "{source}");
        }
    }

    #[test]
    fn unsafe_in_comments_and_strings_is_allowed() {
        let source = "// unsafe\n#![forbid(unsafe_code)] const A: &str = \"unsafe\";";
        assert!(unsafe_code(&stream(source)).is_empty());
    }

    #[test]
    fn os_calls_are_found_outside_tests_only() {
        let module = "use std::io;\n#[cfg(test)]\nmod tests {\n use rustix::fs; fn g() {}\n}\n\
                      fn h() { libc::getpid() }";
        assert_eq!(lines(&os_calls(stream(module))), [6]);
        let imports = "#[cfg(test)]\nuse libc::getpid;\nuse rustix::io;";
        assert_eq!(lines(&os_calls(stream(imports))), [3]);
        let file = "#[cfg(test)] mod tests;\nfn f() { rustix::fs::sync() }";
        assert_eq!(lines(&os_calls(stream(file))), [2]);
    }

    #[test]
    fn the_attribute_must_be_the_inner_one() {
        assert!(forbids_unsafe(stream("//! Docs.\n#![forbid(unsafe_code)]\nmod a;")));
        assert!(!forbids_unsafe(stream("//! #![forbid(unsafe_code)]\nmod a;")));
        assert!(!forbids_unsafe(stream("#[forbid(unsafe_code)] mod a {}")));
    }
}

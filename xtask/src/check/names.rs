//! Checks for names that do not describe what they stand for.
//!
//! `xtask/names.txt` lists the refused names with the standard terms to use instead. In addition, a
//! public name may be declared only a few times, because a name that is declared everywhere
//! identifies nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use syn::visit::{self, Visit};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Path of the list of refused names, relative to the root.
const LIST: &str = "xtask/names.txt";

/// Maximum number of public declarations of one name in the workspace.
const MAX_DECLARATIONS: usize = 3;

/// Public names that are common in Rust and may be declared any number of times.
const IDIOMS: &[&str] = &[
    "new", "open", "close", "read", "write", "parse", "path", "name", "as_str", "run", "main",
    "send", "recv", "start", "finish", "state", "text", "is_empty", "len", "iter", "push", "take",
    "load", "save", "find", "id", "check", "from_str", "command", "kind", "stop", "wait", "ALL",
];

/// Names that each module of a set of similar modules declares once, such as `edit_file::TOOL_NAME`
/// and `stop::Args`. The module's name distinguishes them.
const TABLE_ENTRIES: &[&str] = &[
    "Args",
    "COMMAND",
    "DESCRIPTION",
    "ROW",
    "TOOL_DESCRIPTION",
    "TOOL_NAME",
    "answer",
    "call",
    "checks",
    "install",
    "remove",
    "serve",
    "targets",
];

/// The kind of a declaration. Each refusal applies to one kind, but a refused name of a function
/// is also refused for a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Type,
    /// A function outside `impl` blocks. Other modules may call it by its name alone.
    Function,
    /// A function of a type. The type qualifies the name, so many types may declare it.
    Method,
    Constant,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "type" => Some(Self::Type),
            "fn" => Some(Self::Function),
            "const" => Some(Self::Constant),
            _ => None,
        }
    }
}

/// A name that the list refuses for one kind of declaration.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    kind: Kind,
    name: String,
    /// The standard terms to use instead.
    advice: String,
}

/// A name that a source file declares.
struct Declaration {
    kind: Kind,
    name: String,
    is_public: bool,
    line: usize,
}

/// Rejects refused names, and public names of types, constants and module functions that are
/// declared too often.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let list = workspace.root.join(LIST);
    let text = std::fs::read_to_string(&list)
        .with_context(|| format!("could not read `{}`", list.display()))?;
    let refusals = parse_list(&text)?;
    let mut violations = Vec::new();
    let mut public: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for member in workspace.metadata.members.values() {
        for path in workspace.rust_files(&member.directory.join("src"))? {
            for declared in declarations(&path)? {
                let position = format!("{}:{}", workspace.relative(&path).display(), declared.line);
                if let Some(refusal) = refusals.iter().find(|refusal| refusal.refuses(&declared)) {
                    let (name, advice) = (&refusal.name, &refusal.advice);
                    violations.push(format!("{position}: `{name}` is too vague: {advice}"));
                }
                let is_counted = declared.is_public && declared.kind != Kind::Method;
                let name = declared.name.as_str();
                if is_counted && !IDIOMS.contains(&name) && !TABLE_ENTRIES.contains(&name) {
                    public.entry(declared.name).or_default().push(position);
                }
            }
        }
    }
    for (name, positions) in &public {
        if positions.len() > MAX_DECLARATIONS {
            let positions = positions.join(", ");
            violations.push(format!(
                "`{name}` is declared too often (at most {MAX_DECLARATIONS} times): {positions}"
            ));
        }
    }
    for violation in &violations {
        println!("  {violation}");
    }
    if !violations.is_empty() {
        bail!(
            "names to replace: {}; the glossary in ARCHITECTURE.md has the terms",
            violations.len()
        );
    }
    Ok(StepOutcome::PassedWithNote(format!("public names: {}", public.len())))
}

impl Refusal {
    /// Returns whether the entry refuses a declaration. Types and constants are refused regardless
    /// of their visibility, functions only if they are public.
    fn refuses(&self, declared: &Declaration) -> bool {
        let kind = match declared.kind {
            Kind::Method => Kind::Function,
            kind @ (Kind::Type | Kind::Function | Kind::Constant) => kind,
        };
        self.kind == kind
            && self.name == declared.name
            && (declared.is_public || kind != Kind::Function)
    }
}

/// Reads lines of the form `KIND NAME...: ADVICE`. A line that starts with `#` is a comment.
fn parse_list(text: &str) -> Result<Vec<Refusal>> {
    let mut refusals = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once(": ").and_then(|(head, advice)| {
            let (kind, names) = head.split_once(' ')?;
            Some((Kind::parse(kind)?, names, advice.trim().to_owned()))
        });
        let Some((kind, names, advice)) = parsed else {
            bail!("{LIST}:{}: expected `type|fn|const NAME...: ADVICE`, found `{line}`", at + 1);
        };
        for name in names.split_whitespace() {
            refusals.push(Refusal { kind, name: name.to_owned(), advice: advice.clone() });
        }
    }
    Ok(refusals)
}

/// Returns the declarations of a file outside unit tests.
fn declarations(path: &Path) -> Result<Vec<Declaration>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("could not read `{}`", path.display()))?;
    let file = syn::parse_file(&text).with_context(|| format!("{} is not Rust", path.display()))?;
    let mut collector = Collector::default();
    collector.visit_file(&file);
    Ok(collector.found)
}

#[derive(Default)]
struct Collector {
    found: Vec<Declaration>,
}

impl Collector {
    fn add(&mut self, kind: Kind, name: &syn::Ident, visibility: &syn::Visibility) {
        let is_public = !matches!(visibility, syn::Visibility::Inherited);
        let line = name.span().start().line;
        self.found.push(Declaration { kind, name: name.to_string(), is_public, line });
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_unit_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
        });
        if !is_unit_test {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(Kind::Type, &item.ident, &item.vis);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(Kind::Type, &item.ident, &item.vis);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(Kind::Type, &item.ident, &item.vis);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(Kind::Type, &item.ident, &item.vis);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(Kind::Function, &item.sig.ident, &item.vis);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(Kind::Method, &item.sig.ident, &item.vis);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.add(Kind::Constant, &item.ident, &item.vis);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.add(Kind::Constant, &item.ident, &item.vis);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.add(Kind::Constant, &item.ident, &item.vis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(source: &str) -> Vec<(String, bool)> {
        let mut collector = Collector::default();
        collector.visit_file(&syn::parse_file(source).expect("it is Rust"));
        collector.found.into_iter().map(|found| (found.name, found.is_public)).collect()
    }

    #[test]
    fn declarations_are_found_with_their_visibility() {
        let source = "pub struct A; impl A { pub(crate) fn b() {} fn c() {} const D: u8 = 1; }";
        let expected = [("A", true), ("b", true), ("c", false), ("D", false)];
        assert_eq!(declared(source), expected.map(|(name, public)| (name.to_owned(), public)));
    }

    #[test]
    fn unit_tests_are_left_out() {
        assert!(declared("#[cfg(test)] mod tests { pub struct A; }").is_empty());
    }

    #[test]
    fn a_list_has_a_kind_names_and_advice() {
        let list = parse_list("# comment\n\nfn of at: from_x\ntype Told: Notification\n");
        let list = list.expect("it is a list");
        assert_eq!(list.len(), 3);
        assert_eq!((list[1].name.as_str(), list[1].advice.as_str()), ("at", "from_x"));
        assert!(parse_list("method of: from_x").is_err());
        assert!(parse_list("fn of").is_err());
    }

    #[test]
    fn private_functions_may_have_short_names() {
        let refusal = Refusal { kind: Kind::Function, name: "at".into(), advice: String::new() };
        let declared =
            |is_public| Declaration { kind: Kind::Function, name: "at".into(), is_public, line: 1 };
        assert!(refusal.refuses(&declared(true)));
        assert!(!refusal.refuses(&declared(false)));
    }
}

//! Settings whose value is a list. A layer's list replaces the lists of lower layers, as any other
//! value does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::value::{RawValue, Value, ValueError};
use crate::socket_patterns::{self, SocketPattern};
use crate::unowned::{BadOrphanRule, OrphanRule};

/// Separates the items of a list that is given as one text, for example in an environment variable.
const LIST_SEPARATOR: char = ',';

const SOCKET_PATTERNS_ALLOWED: &str = "a list of texts, each an absolute path with `*` or `?` in its last part \
    only, such as `[\"/tmp/claude-http-*.sock\"]`";
const PROGRAMS_ALLOWED: &str = "a list of names of programs, without `/` or a comma, such as \
    `[\"editors\", \"browsers\", \"gimp\"]`; `[]` for none";
const RULES_ALLOWED: &str = "rules: tables `[[reap_foreign]]` with `name`, `pattern`, `hosts` and perhaps \
    `min_age`, or with the `name` of a built-in rule alone";
const RULE_KEYS_ALLOWED: &str = "`name`, `pattern`, `hosts` and `min_age`";

/// Returns the items of a list, or of a text that is split at separators. Returns `None` for any
/// other value.
fn list_items(raw: &RawValue) -> Option<Vec<RawValue>> {
    match raw {
        RawValue::List(items) => Some(items.clone()),
        RawValue::Text(text) => {
            let items = text.split(LIST_SEPARATOR).map(str::trim).filter(|item| !item.is_empty());
            Some(items.map(|item| RawValue::Text(item.to_owned())).collect())
        }
        RawValue::Integer(_) | RawValue::Boolean(_) | RawValue::Table(_) | RawValue::Other(_) => {
            None
        }
    }
}

impl Value for Vec<SocketPattern> {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let items =
            list_items(raw).ok_or_else(|| ValueError::not_allowed(raw, SOCKET_PATTERNS_ALLOWED))?;
        let read = |item: &RawValue| {
            let text = item
                .as_text()
                .ok_or_else(|| ValueError::not_allowed(item, SOCKET_PATTERNS_ALLOWED))?;
            let refused = || ValueError::not_allowed(item, socket_patterns::ALLOWED_PATTERN);
            SocketPattern::parse(text).ok_or_else(refused)
        };
        items.iter().map(read).collect()
    }

    fn raw(&self) -> RawValue {
        RawValue::List(self.iter().map(|one| RawValue::Text(one.to_string())).collect())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": { "type": "string", "pattern": r"^/([^*?\[,/]+/)*[^,/]+$" }
        })
    }
}

impl Value for Vec<String> {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let items =
            list_items(raw).ok_or_else(|| ValueError::not_allowed(raw, PROGRAMS_ALLOWED))?;
        let is_name = |name: &&str| !name.is_empty() && !name.contains(['/', ',', '\0']);
        let read = |item: &RawValue| {
            item.as_text()
                .filter(is_name)
                .map(str::to_owned)
                .ok_or_else(|| ValueError::not_allowed(item, PROGRAMS_ALLOWED))
        };
        items.iter().map(read).collect()
    }

    fn raw(&self) -> RawValue {
        RawValue::List(self.iter().map(|name| RawValue::Text(name.clone())).collect())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[^/,]+$" }
        })
    }
}

impl Value for Vec<OrphanRule> {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let items = list_items(raw).ok_or_else(|| ValueError::not_allowed(raw, RULES_ALLOWED))?;
        items.iter().map(read_rule).collect()
    }

    fn raw(&self) -> RawValue {
        RawValue::List(self.iter().map(rule_to_raw).collect())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,40}$" },
                    "pattern": { "type": "string", "format": "regex" },
                    "min_age": <Duration as Value>::schema(),
                    "hosts": {
                        "type": "array",
                        "minItems": 1,
                        "items": { "type": "string", "pattern": "^[^/]+$" }
                    }
                },
                "additionalProperties": false
            }
        })
    }
}

/// Parses one rule: a table, or the name of a built-in rule.
fn read_rule(raw: &RawValue) -> Result<OrphanRule, ValueError> {
    let built_in = |name: &RawValue| {
        let found = name.as_text().and_then(OrphanRule::built_in_named);
        found.ok_or_else(|| ValueError::not_allowed(name, RULES_ALLOWED))
    };
    let RawValue::Table(table) = raw else { return built_in(raw) };
    let known = |key: &&String| !["name", "pattern", "hosts", "min_age"].contains(&key.as_str());
    if let Some(key) = table.keys().find(known) {
        return Err(ValueError::not_allowed(&RawValue::Text(key.clone()), RULE_KEYS_ALLOWED));
    }
    if let (1, Some(name)) = (table.len(), table.get("name")) {
        return built_in(name);
    }
    let text = |key: &str| table.get(key).and_then(RawValue::as_text);
    let name = text("name").ok_or(BadOrphanRule::Name)?;
    let pattern = text("pattern").ok_or_else(|| ValueError::not_allowed(raw, RULES_ALLOWED))?;
    let min_age = table.get("min_age").map(<Duration as Value>::read).transpose()?;
    let hosts = match table.get("hosts") {
        Some(RawValue::List(hosts)) => {
            hosts.iter().map(|host| host.as_text().map(str::to_owned)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    Ok(OrphanRule::new(name, pattern, min_age, &hosts.ok_or(BadOrphanRule::Hosts)?)?)
}

fn rule_to_raw(rule: &OrphanRule) -> RawValue {
    let text = |text: &String| RawValue::Text(text.clone());
    let mut table = BTreeMap::from([
        ("name".to_owned(), text(&rule.name)),
        ("pattern".to_owned(), text(&rule.pattern)),
        ("hosts".to_owned(), RawValue::List(rule.hosts.iter().map(text).collect())),
    ]);
    if let Some(age) = &rule.min_age {
        table.insert("min_age".to_owned(), age.raw());
    }
    RawValue::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, RawValue)]) -> RawValue {
        let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        RawValue::List(vec![RawValue::Table(entries.collect())])
    }

    fn text(text: &str) -> RawValue {
        RawValue::Text(text.to_owned())
    }

    fn list(items: &[&str]) -> RawValue {
        RawValue::List(items.iter().map(|item| text(item)).collect())
    }

    #[test]
    fn a_rule_round_trips() {
        let whole = [
            ("name", text("relays")),
            ("pattern", text("^socat ")),
            ("hosts", list(&["claude", "codex"])),
            ("min_age", text("2h")),
        ];
        let rules = <Vec<OrphanRule>>::read(&table(&whole)).expect("a valid rule");
        assert_eq!(rules[0].min_age, Some(Duration::from_secs(7200)));
        assert_eq!(rules[0].hosts, ["claude", "codex"]);
        assert_eq!(rules.raw(), table(&whole));
        let named = <Vec<OrphanRule>>::read(&table(&[("name", text("claude-sandbox"))]));
        assert_eq!(named, Ok(OrphanRule::built_in()));
        assert_eq!(<Vec<OrphanRule>>::read(&RawValue::List(Vec::new())), Ok(Vec::new()));
    }

    #[test]
    fn a_bad_rule_error_says_what_is_wrong() {
        let hosts = ("hosts", list(&["claude"]));
        for (entries, part) in [
            (vec![("name", text("x y")), ("pattern", text("a")), hosts.clone()], "letters, digits"),
            (vec![("name", text("x")), ("pattern", text("(")), hosts.clone()], "unclosed group"),
            (vec![("name", text("x")), ("pattern", text("a"))], "`hosts` must name at least one"),
            (
                vec![("name", text("x")), ("pattern", text("a")), ("hosts", list(&[]))],
                "`hosts` must name at least one",
            ),
            (vec![("name", text("x")), hosts.clone()], "with `name`, `pattern`, `hosts`"),
            (vec![("name", text("x"))], "the `name` of a built-in rule"),
            (vec![("name", text("x")), ("patern", text("a"))], "`patern` is not allowed here"),
        ] {
            let error = <Vec<OrphanRule>>::read(&table(&entries)).expect_err("illegal").to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn program_names_with_a_directory_are_rejected() {
        let read = <Vec<String>>::read;
        assert_eq!(read(&text("code, firefox")), Ok(vec!["code".to_owned(), "firefox".to_owned()]));
        assert_eq!(read(&RawValue::List(Vec::new())), Ok(Vec::new()));
        let error = read(&list(&["/usr/bin/code"])).expect_err("a path").to_string();
        assert!(error.contains("`/usr/bin/code` is not allowed here"), "{error}");
    }

    #[test]
    fn a_pattern_list_may_be_a_comma_separated_text() {
        let read = <Vec<SocketPattern>>::read;
        let both = read(&text("/tmp/a-*.sock, /run/b.sock")).expect("valid patterns");
        assert_eq!(both.raw(), list(&["/tmp/a-*.sock", "/run/b.sock"]));
        assert_eq!(read(&both.raw()), Ok(both));
        let error = read(&list(&["a.sock"])).expect_err("a relative path").to_string();
        assert!(error.starts_with("`a.sock` is not allowed here; write an absolute"), "{error}");
    }
}

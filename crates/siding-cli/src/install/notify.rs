//! `siding install HOST --notify`: the hook entry that has a person told, and the address for it.

use std::fs;
use std::path::{Path, PathBuf};

use siding_core::store::StateDir;
use siding_model::settings::Webhook;

use super::file::Original;
use super::hooks::{self, Entry};
use super::json::{Dialect, Json};
use super::program::{Names, words};
use super::target::{Content, Target};
use super::tree::Tree;
use crate::cmd::{NotifyWay, join_ways};
use crate::failure::Failure;

/// The last argument of `siding hook` in the entry that opens the session, from which this entry is
/// made, and in this one.
const OPENS: &str = "session-start";
const NOTIFIES: &str = "notify-person";

/// What `--notify` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotifyChoice {
    /// Nobody is told.
    Off,
    /// A person is told, in each of these ways.
    Ways {
        /// The ways.
        ways: Vec<NotifyWay>,
        /// Where to, when it was said with `webhook=URL`.
        address: Option<Webhook>,
    },
}

impl std::str::FromStr for NotifyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (mut ways, mut address) = (Vec::new(), None);
        for word in text.split(',') {
            let way = match word.split_once('=') {
                None if word == "desktop" => NotifyWay::Desktop,
                None if word == "bell" => NotifyWay::Bell,
                None if word == "webhook" => NotifyWay::Webhook,
                Some(("webhook", url)) => {
                    address = Some(url.parse().map_err(|error| format!("{error}"))?);
                    NotifyWay::Webhook
                }
                // A mistyped address may hold a secret: only its first word is repeated.
                _ => {
                    let word = word.split('=').next().unwrap_or_default();
                    return Err(format!(
                        "`{word}` is no way to notify; allowed are desktop, bell, webhook, \
                         webhook=URL, with commas between, or off"
                    ));
                }
            };
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
        Ok(Self::Ways { ways, address })
    }
}

/// Adds the entry to a host's files where it was asked for. Without `asked` the choice of an earlier
/// install stays. Returns the ways that are installed.
pub(crate) fn add_entry(
    targets: &mut [Target],
    asked: Option<&NotifyChoice>,
    names: &Names,
) -> Vec<NotifyWay> {
    let with_hooks = targets.iter_mut().find_map(|target| match &mut target.content {
        Content::Json { hooks, .. } if !hooks.is_empty() => Some((&target.path, hooks)),
        Content::Json { .. } | Content::Toml(_) | Content::Own(_) => None,
    });
    let Some((path, entries)) = with_hooks else { return Vec::new() };
    let ways = match asked {
        Some(NotifyChoice::Off) => Vec::new(),
        Some(NotifyChoice::Ways { ways, .. }) => ways.clone(),
        None => installed_ways(path, names),
    };
    if !ways.is_empty() {
        let opens = entries.iter().find(|entry| entry.word == OPENS).cloned();
        entries.extend(opens.map(|opens| entry(&opens, &join_ways(&ways))));
    }
    ways
}

/// Returns the ways that an earlier install has put into a file.
fn installed_ways(path: &Path, names: &Names) -> Vec<NotifyWay> {
    let read = |path: &Path| {
        let original = Original::read(path).ok()?;
        let json = Json::read(original.text().ok()??, Dialect::Loose).ok()?;
        let found = hooks::find(&json, names).into_iter().find(|found| found.word == NOTIFIES)?;
        let args: Vec<String> = match found.handler["args"].as_array() {
            Some(args) => args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            None => words(found.handler["command"].as_str()?),
        };
        let at = args.iter().position(|arg| arg == "--via")?;
        args.get(at + 1)?.parse::<NotifyChoice>().ok()
    };
    match read(path) {
        Some(NotifyChoice::Ways { ways, .. }) => ways,
        Some(NotifyChoice::Off) | None => Vec::new(),
    }
}

/// Returns the entry, in the form that the host has for the one which opens the session.
fn entry(opens: &Entry, ways: &str) -> Entry {
    Entry { word: NOTIFIES, handler: notifying(&opens.handler, ways), ..opens.clone() }
}

fn notifying(tree: &Tree, ways: &str) -> Tree {
    match tree {
        Tree::Text(text) => Tree::Text(match text.strip_suffix(OPENS) {
            // A line for a shell, and the name of an entry.
            Some(before) if before.contains(" hook ") => format!("{before}--via {ways} {NOTIFIES}"),
            Some(before) => format!("{before}{NOTIFIES}"),
            None => text.clone(),
        }),
        Tree::List(list) => {
            let opens = Tree::text(OPENS);
            let notifies = ["--via", ways, NOTIFIES].map(Tree::text);
            let words = list.iter().flat_map(|word| match *word == opens {
                true => notifies.to_vec(),
                false => vec![word.clone()],
            });
            Tree::List(words.collect())
        }
        Tree::Map(members) => {
            let member = |(key, value): &(String, Tree)| (key.clone(), notifying(value, ways));
            Tree::Map(members.iter().map(member).collect())
        }
        Tree::Number(_) | Tree::Flag(_) => tree.clone(),
    }
}

/// Returns where the address for a host is stored: siding's own directory, never a host's file, which
/// others may read.
fn address_path(state: &Path, host: &str) -> PathBuf {
    state.join("installed").join(format!("notify-webhook.{host}"))
}

/// Returns the address that `--notify webhook=URL` has stored for a host.
///
/// # Errors
///
/// When it cannot be read.
pub(crate) fn stored_address(state: &Path, host: &str) -> Result<Option<Webhook>, Failure> {
    let path = address_path(state, host);
    let file = Original::read(&path)?;
    let Some(text) = file.text()? else { return Ok(None) };
    let address = text.trim().parse().map_err(|error| {
        Failure::new(format!("`{}`: {error}", path.display()))
            .with_hint(format!("`siding install {host} --notify webhook=URL` writes it again"))
    })?;
    Ok(Some(address))
}

/// Whether an address is stored for a host.
pub(crate) fn has_address(host: &str) -> bool {
    StateDir::default_path()
        .is_some_and(|state| stored_address(&state, host).is_ok_and(|it| it.is_some()))
}

/// Stores the address for a host. Returns whether that changed anything.
///
/// # Errors
///
/// When it cannot be written.
pub(crate) fn store_address(host: &str, address: &Webhook) -> Result<bool, Failure> {
    let Some(state) = StateDir::default_path() else { return Ok(false) };
    if stored_address(&state, host).ok().flatten().as_ref() == Some(address) {
        return Ok(false);
    }
    let file = Original::read(&address_path(&state, host))?;
    file.make_directory()?;
    file.replace(&format!("{}\n", address.address().unwrap_or("off")))?;
    Ok(true)
}

/// Removes the address for a host. Returns whether there was one.
///
/// # Errors
///
/// When it cannot be removed.
pub(crate) fn forget_address(host: &str) -> Result<bool, Failure> {
    let Some(state) = StateDir::default_path() else { return Ok(false) };
    let path = address_path(&state, host);
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::new(format!("could not remove `{}`: {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_and_a_secret_is_not_repeated() {
        let read = |text: &str| text.parse::<NotifyChoice>();
        assert_eq!(read("off"), Ok(NotifyChoice::Off));
        let Ok(NotifyChoice::Ways { ways, address }) =
            read("bell,desktop,bell,webhook=https://example.org/secret,1")
        else {
            // The comma ends the address: what follows is no way.
            let why = read("bell,webhook=https://example.org/secret,1").expect_err("no way");
            assert!(why.contains("`1`") && !why.contains("secret"), "{why}");
            return;
        };
        panic!("{ways:?} {address:?}");
    }

    #[test]
    fn an_unknown_way_names_those_that_there_are() {
        let why = "mail".parse::<NotifyChoice>().expect_err("no way");
        assert!(why.contains("`mail`") && why.contains("desktop, bell, webhook"), "{why}");
        let why = "webhok=https://example.org/secret".parse::<NotifyChoice>().expect_err("no way");
        assert!(why.contains("`webhok`") && !why.contains("secret"), "{why}");
        let why = "webhook=no address".parse::<NotifyChoice>().expect_err("no address");
        assert!(!why.contains("no address"), "{why}");
        let found = "desktop,webhook=https://example.org/x".parse::<NotifyChoice>();
        let Ok(NotifyChoice::Ways { ways, address: Some(address) }) = found else {
            panic!("{found:?}")
        };
        assert_eq!(join_ways(&ways), "desktop,webhook");
        assert_eq!(address.address(), Some("https://example.org/x"));
    }

    #[test]
    fn each_form_of_an_entry_has_its_own() {
        let args = Tree::map([
            ("command", Tree::text("/bin/siding")),
            ("args", Tree::texts(["hook", "session-start"])),
        ]);
        let expected = Tree::map([
            ("command", Tree::text("/bin/siding")),
            ("args", Tree::texts(["hook", "--via", "desktop,bell", "notify-person"])),
        ]);
        assert_eq!(notifying(&args, "desktop,bell"), expected);
        let line = Tree::map([
            ("name", Tree::text("siding session-start")),
            ("command", Tree::text("siding hook --host gemini session-start")),
        ]);
        let expected = Tree::map([
            ("name", Tree::text("siding notify-person")),
            ("command", Tree::text("siding hook --host gemini --via bell notify-person")),
        ]);
        assert_eq!(notifying(&line, "bell"), expected);
    }
}

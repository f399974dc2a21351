//! `siding install HOST --notify`: the hook entry that notifies a person, and the stored address of
//! a webhook.

use std::fs;
use std::path::{Path, PathBuf};

use siding_core::store::StateDir;
use siding_model::settings::Webhook;

use super::file::OriginalFile;
use super::hooks::{self, HookEntry};
use super::json::{Dialect, JsonDocument};
use super::json_value::JsonValue;
use super::program::{ProgramNames, split_words};
use super::target::{FileContent, TargetFile};
use crate::failure::Failure;
use crate::notify_method::{NotifyMethod, join_methods};

/// Last argument of `siding hook` in the entry that opens the session. This entry is the template
/// for the entry that notifies.
const SESSION_START_ARG: &str = "session-start";
/// Last argument of `siding hook` in the entry that notifies.
const NOTIFY_PERSON_ARG: &str = "notify-person";

/// The value of `--notify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotifyChoice {
    /// No entry is installed, and an existing one is removed.
    Off,
    /// Notify a person by each of these methods.
    Methods {
        /// Without duplicates, in the order given.
        methods: Vec<NotifyMethod>,
        /// The address from `webhook=URL`; `None` keeps an address that is already stored.
        address: Option<Webhook>,
    },
}

impl std::str::FromStr for NotifyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (mut methods, mut address) = (Vec::new(), None);
        for word in text.split(',') {
            let method = match word.split_once('=') {
                None if word == "desktop" => NotifyMethod::Desktop,
                None if word == "bell" => NotifyMethod::Bell,
                None if word == "webhook" => NotifyMethod::Webhook,
                Some(("webhook", url)) => {
                    address = Some(url.parse().map_err(|error| format!("{error}"))?);
                    NotifyMethod::Webhook
                }
                // A mistyped address may contain a secret, so only the part before `=` is repeated.
                _ => {
                    let word = word.split('=').next().unwrap_or_default();
                    return Err(format!(
                        "`{word}` is not a notification method; use desktop, bell, webhook and \
                         webhook=URL, separated by commas, or off"
                    ));
                }
            };
            if !methods.contains(&method) {
                methods.push(method);
            }
        }
        Ok(Self::Methods { methods, address })
    }
}

/// Adds to a host's hooks the entry that notifies a person, if `asked` selects notification
/// methods. If `asked` is `None`, the entry keeps the methods of an earlier install. Returns the
/// methods of the entry; empty if there is no entry.
pub(crate) fn add_entry(
    targets: &mut [TargetFile],
    asked: Option<&NotifyChoice>,
    names: &ProgramNames,
) -> Vec<NotifyMethod> {
    let with_hooks = targets.iter_mut().find_map(|target| match &mut target.content {
        FileContent::Json { hooks, .. } if !hooks.is_empty() => Some((&target.path, hooks)),
        FileContent::Json { .. } | FileContent::Toml(_) | FileContent::Owned(_) => None,
    });
    let Some((path, entries)) = with_hooks else { return Vec::new() };
    let methods = match asked {
        Some(NotifyChoice::Off) => Vec::new(),
        Some(NotifyChoice::Methods { methods, .. }) => methods.clone(),
        None => installed_methods(path, names),
    };
    if !methods.is_empty() {
        let opens = entries.iter().find(|entry| entry.event_arg == SESSION_START_ARG).cloned();
        entries.extend(opens.map(|opens| notify_entry(&opens, &join_methods(&methods))));
    }
    methods
}

/// Returns the notification methods that an earlier install wrote into a file; empty if the file
/// has no such entry or cannot be parsed.
fn installed_methods(path: &Path, names: &ProgramNames) -> Vec<NotifyMethod> {
    let read = |path: &Path| {
        let original = OriginalFile::read(path).ok()?;
        let json = JsonDocument::parse(original.text().ok()??, Dialect::Loose).ok()?;
        let found = hooks::find(&json, names)
            .into_iter()
            .find(|found| found.event_arg == NOTIFY_PERSON_ARG)?;
        let args: Vec<String> = match found.handler["args"].as_array() {
            Some(args) => args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            None => split_words(found.handler["command"].as_str()?),
        };
        let at = args.iter().position(|arg| arg == "--via")?;
        args.get(at + 1)?.parse::<NotifyChoice>().ok()
    };
    match read(path) {
        Some(NotifyChoice::Methods { methods, .. }) => methods,
        Some(NotifyChoice::Off) | None => Vec::new(),
    }
}

/// Returns the entry that notifies, in the format of the host's entry that opens the session.
fn notify_entry(opens: &HookEntry, methods: &str) -> HookEntry {
    HookEntry {
        event_arg: NOTIFY_PERSON_ARG,
        handler: to_notify_value(&opens.handler, methods),
        ..opens.clone()
    }
}

fn to_notify_value(tree: &JsonValue, methods: &str) -> JsonValue {
    match tree {
        JsonValue::Text(text) => JsonValue::Text(match text.strip_suffix(SESSION_START_ARG) {
            // The text is either a shell command line, to which the methods are added, or the name
            // of an entry.
            Some(before) if before.contains(" hook ") => {
                format!("{before}--via {methods} {NOTIFY_PERSON_ARG}")
            }
            Some(before) => format!("{before}{NOTIFY_PERSON_ARG}"),
            None => text.clone(),
        }),
        JsonValue::List(list) => {
            let opens = JsonValue::text(SESSION_START_ARG);
            let notifies = ["--via", methods, NOTIFY_PERSON_ARG].map(JsonValue::text);
            let words = list.iter().flat_map(|word| match *word == opens {
                true => notifies.to_vec(),
                false => vec![word.clone()],
            });
            JsonValue::List(words.collect())
        }
        JsonValue::Map(members) => {
            let member =
                |(key, value): &(String, JsonValue)| (key.clone(), to_notify_value(value, methods));
            JsonValue::Map(members.iter().map(member).collect())
        }
        JsonValue::Number(_) | JsonValue::Flag(_) => tree.clone(),
    }
}

/// Returns the path of the file with a host's webhook address. This file is in siding's own
/// directory, because other users may be able to read a host's files.
fn address_path(state: &Path, host: &str) -> PathBuf {
    state.join("installed").join(format!("notify-webhook.{host}"))
}

/// Returns the address that `--notify webhook=URL` has stored for a host; `None` if it has stored
/// none.
///
/// # Errors
///
/// The file cannot be read, or it contains no valid address.
pub(crate) fn stored_address(state: &Path, host: &str) -> Result<Option<Webhook>, Failure> {
    let path = address_path(state, host);
    let file = OriginalFile::read(&path)?;
    let Some(text) = file.text()? else { return Ok(None) };
    let address = text.trim().parse().map_err(|error| {
        Failure::new(format!("`{}`: {error}", path.display()))
            .with_hint(format!("`siding install {host} --notify webhook=URL` writes it again"))
    })?;
    Ok(Some(address))
}

/// Returns whether a valid address is stored for a host.
pub(crate) fn has_address(host: &str) -> bool {
    StateDir::default_path()
        .is_some_and(|state| stored_address(&state, host).is_ok_and(|it| it.is_some()))
}

/// Stores the address for a host. Returns whether that changed anything; false if there is no state
/// directory.
///
/// # Errors
///
/// The file cannot be written.
pub(crate) fn store_address(host: &str, address: &Webhook) -> Result<bool, Failure> {
    let Some(state) = StateDir::default_path() else { return Ok(false) };
    if stored_address(&state, host).ok().flatten().as_ref() == Some(address) {
        return Ok(false);
    }
    let file = OriginalFile::read(&address_path(&state, host))?;
    file.create_directories()?;
    file.replace(&format!("{}\n", address.address().unwrap_or("off")))?;
    Ok(true)
}

/// Removes the address for a host. Returns whether there was one.
///
/// # Errors
///
/// The file cannot be removed.
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
    fn notification_methods_parse_and_errors_hide_the_secret() {
        let read = |text: &str| text.parse::<NotifyChoice>();
        assert_eq!(read("off"), Ok(NotifyChoice::Off));
        let Ok(NotifyChoice::Methods { methods, address }) =
            read("bell,desktop,bell,webhook=https://example.org/secret,1")
        else {
            // A comma ends the address; the text after it is not a valid method.
            let why =
                read("bell,webhook=https://example.org/secret,1").expect_err("an invalid method");
            assert!(why.contains("`1`") && !why.contains("secret"), "{why}");
            return;
        };
        panic!("{methods:?} {address:?}");
    }

    #[test]
    fn an_unknown_method_lists_the_allowed_methods() {
        let why = "mail".parse::<NotifyChoice>().expect_err("an invalid method");
        assert!(why.contains("`mail`") && why.contains("desktop, bell, webhook"), "{why}");
        let why = "webhok=https://example.org/secret"
            .parse::<NotifyChoice>()
            .expect_err("an invalid method");
        assert!(why.contains("`webhok`") && !why.contains("secret"), "{why}");
        let why = "webhook=no address".parse::<NotifyChoice>().expect_err("no address");
        assert!(!why.contains("no address"), "{why}");
        let found = "desktop,webhook=https://example.org/x".parse::<NotifyChoice>();
        let Ok(NotifyChoice::Methods { methods, address: Some(address) }) = found else {
            panic!("{found:?}")
        };
        assert_eq!(join_methods(&methods), "desktop,webhook");
        assert_eq!(address.address(), Some("https://example.org/x"));
    }

    #[test]
    fn both_entry_forms_get_the_notify_arguments() {
        let args = JsonValue::map([
            ("command", JsonValue::text("/bin/siding")),
            ("args", JsonValue::texts(["hook", "session-start"])),
        ]);
        let expected = JsonValue::map([
            ("command", JsonValue::text("/bin/siding")),
            ("args", JsonValue::texts(["hook", "--via", "desktop,bell", "notify-person"])),
        ]);
        assert_eq!(to_notify_value(&args, "desktop,bell"), expected);
        let line = JsonValue::map([
            ("name", JsonValue::text("siding session-start")),
            ("command", JsonValue::text("siding hook --host gemini session-start")),
        ]);
        let expected = JsonValue::map([
            ("name", JsonValue::text("siding notify-person")),
            ("command", JsonValue::text("siding hook --host gemini --via bell notify-person")),
        ]);
        assert_eq!(to_notify_value(&line, "bell"), expected);
    }
}

//! The setting `executor`: the remote machines on which commands can run.

use std::collections::BTreeMap;

use super::suggest::similar_name;
use super::value::{EMPTY_TABLE_WORD, RawValue, Value, ValueError, describe_rejected, printable};
use crate::executor::{
    ExecutorSettings, JOB_TIME_FORMS, LOCAL_EXECUTOR, SlurmOptions, is_executor_name,
    is_job_argument, parse_memory_mib, parse_time_minutes,
};
use crate::file_sync::parse_relative_path;

/// The default kind: a machine that ssh reaches.
const SSH_KIND: &str = "ssh";
/// A Slurm cluster.
const SLURM_KIND: &str = "slurm";

const EXECUTORS_ALLOWED: &str = "a table `[executor.NAME]` with `host` for each machine in a settings file; a \
    variable can only be `none`";
const TABLE_ALLOWED: &str = "a table, such as `host = \"me@build\"` below `[executor.build]`";
const KIND_ALLOWED: &str = "`ssh` or `slurm`";
const HOST_ALLOWED: &str = "the destination for ssh, such as `\"build\"` or `\"me@build\"`, without spaces and \
    without `-` at the beginning";
const PROGRAM_ALLOWED: &str =
    "the path of siding on the remote machine, such as `\"/usr/local/bin/siding\"`";
const PATHS_ALLOWED: &str = "a table of absolute local and remote directories, such as \
    `{ \"/home/me/src\" = \"/srv/src\" }`";
const WORD_ALLOWED: &str =
    "a name without spaces, such as `\"gpu\"`, and without `-` at the beginning";
const NUMBER_ALLOWED: &str = "a number of at least 1";
const MEMORY_ALLOWED: &str = "an amount of memory, such as `\"8G\"`";
const ARGUMENTS_ALLOWED: &str = "a list of options of sbatch that siding does not set itself, such as `[\"--qos=high\", \
     \"--exclusive\"]`";
const DIRECTORY_ALLOWED: &str = "an absolute path, such as `\"/scratch/me/siding\"`";
const ENV_ALLOWED: &str = "a list of names of variables, each perhaps with `*` at its end, such as `[\"CI\", \"RUST_*\"]`";

const SYNC_ALLOWED: &str = "a list of paths below the top directory of a project, without `..`, such as \
    `[\"data\", \"build/config.h\"]`";

/// The executors of the settings, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Executors(BTreeMap<String, ExecutorSettings>);

impl Executors {
    /// Returns the executor with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ExecutorSettings> {
        self.0.get(name)
    }

    /// Returns the names of the executors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the executors with their names, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ExecutorSettings)> {
        self.0.iter().map(|(name, executor)| (name.as_str(), executor))
    }
}

/// The reason why a table `[executor.NAME]` is invalid. The text of the error says which form is
/// allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadExecutor {
    /// The name is reserved, too long, empty, or contains other characters than the allowed ones.
    #[error(
        "`{name}` cannot be the name of an executor; write 1 to 40 letters, digits, dashes and \
         underscores, and not `local`, which is this machine"
    )]
    Name {
        /// The rejected name, made safe to print.
        name: String,
    },
    /// The table has no `host`.
    #[error(
        "`{name}` has no `host`; write `host = \"DESTINATION\"` with {HOST_ALLOWED}, or \
         `kind = \"slurm\"`"
    )]
    NoHost {
        /// Name of the executor.
        name: String,
    },
    /// The table has an unknown key.
    #[error(
        "unknown key `{key}` of `{name}`{}; {}",
        key_advice(key, *is_cluster), known_keys(*is_cluster)
    )]
    UnknownKey {
        /// Name of the executor.
        name: String,
        /// The rejected key, made safe to print.
        key: String,
        /// Whether the executor is a Slurm cluster, which has more keys.
        is_cluster: bool,
    },
    /// A key does not accept its value.
    #[error("`{field}`: `{found}` is not allowed here; write {allowed}")]
    Value {
        /// Name of the executor and the key: `build.host`.
        field: String,
        /// The rejected value, escaped and cut to 60 columns; the type of an array or a table.
        found: String,
        /// Description of the allowed values, which follows `write` in the message.
        allowed: &'static str,
    },
}

impl BadExecutor {
    /// Returns the name of the executor and, for a mistake in one of its keys, the key. Both are
    /// safe to print, so a name with other characters than the allowed ones differs from that in
    /// the file.
    #[must_use]
    pub fn key_path(&self) -> (&str, Option<&str>) {
        match self {
            Self::Name { name } | Self::NoHost { name } => (name, None),
            Self::UnknownKey { name, key, .. } => (name, Some(key)),
            // The name of an executor contains no dot.
            Self::Value { field, .. } => match field.split_once('.') {
                Some((name, key)) => (name, Some(key)),
                None => (field, None),
            },
        }
    }
}

/// Minimum length of the shorter key if an unknown key and a known one begin with the same letters
/// and one continues the other, such as `hostname` for `host`.
const MIN_COMMON_LETTERS: usize = 3;

/// Returns the part of the message about an unknown key that names the intended key, or the kind of
/// executor that has the key; empty if there is neither.
fn key_advice(key: &str, is_cluster: bool) -> String {
    let common: &[&str] = &ExecutorTable::KEYS;
    let ssh: &[&str] = &ExecutorTable::SSH_KEYS;
    let slurm: &[&str] = &ExecutorTable::SLURM_KEYS;
    let (own, other, kind) =
        if is_cluster { (slurm, ssh, SSH_KIND) } else { (ssh, slurm, SLURM_KIND) };
    if other.contains(&key) {
        return format!(", which only an executor with `kind = \"{kind}\"` has");
    }
    if let Some(nearest) = intended_key(key, || common.iter().chain(own).copied()) {
        return format!(" (did you mean `{nearest}`?)");
    }
    intended_key(key, || other.iter().copied()).map_or_else(String::new, |nearest| {
        format!(" (did you mean `{nearest}`, which only an executor with `kind = \"{kind}\"` has?)")
    })
}

/// Returns the key that an unknown key was probably meant to be: the most similar one, otherwise
/// one that begins with it, or with which it begins.
fn intended_key<'k, K>(key: &str, known: impl Fn() -> K) -> Option<&'k str>
where
    K: Iterator<Item = &'k str>,
{
    let has_same_beginning = |known: &&str| {
        known.len().min(key.len()) >= MIN_COMMON_LETTERS
            && (known.starts_with(key) || key.starts_with(known))
    };
    similar_name(key, known()).or_else(|| known().find(has_same_beginning))
}

/// Returns a sentence about the keys of an executor.
const fn known_keys(is_cluster: bool) -> &'static str {
    if is_cluster {
        "the keys of a Slurm cluster are `kind`, `host`, `program`, `paths`, `env`, `partition`, \
         `account`, `cpus`, `memory`, `gpus`, `nodes`, `time`, `engine_args` and `directory`"
    } else {
        "the keys are `kind`, `host`, `program`, `paths`, `env` and `sync`"
    }
}

impl Value for Executors {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        match raw {
            RawValue::Text(text) if text.trim() == EMPTY_TABLE_WORD => Ok(Self::default()),
            RawValue::Table(tables) => {
                let read = |(name, raw): (&String, &RawValue)| {
                    Ok((name.clone(), read_executor(name, raw)?))
                };
                let executors: Result<BTreeMap<_, _>, BadExecutor> =
                    tables.iter().map(read).collect();
                Ok(Self(executors?))
            }
            RawValue::Text(_)
            | RawValue::Integer(_)
            | RawValue::Boolean(_)
            | RawValue::List(_)
            | RawValue::Other(_) => Err(ValueError::not_allowed(raw, EXECUTORS_ALLOWED)),
        }
    }

    fn raw(&self) -> RawValue {
        let tables = self.0.iter().map(|(name, one)| (name.clone(), executor_to_raw(one)));
        RawValue::Table(tables.collect())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,40}$" },
            "additionalProperties": {
                "type": "object",
                "anyOf": [
                    { "required": ["host"] },
                    { "required": ["kind"], "properties": { "kind": { "const": SLURM_KIND } } }
                ],
                "properties": {
                    "kind": { "type": "string", "enum": [SSH_KIND, SLURM_KIND] },
                    "host": { "type": "string", "pattern": r"^[^\s-]\S*$" },
                    "partition": { "type": "string", "pattern": r"^[^\s-]\S*$" },
                    "account": { "type": "string", "pattern": r"^[^\s-]\S*$" },
                    "cpus": { "type": "integer", "minimum": 1 },
                    "memory": { "type": "string" },
                    "gpus": { "type": ["string", "integer"] },
                    "nodes": { "type": "integer", "minimum": 1 },
                    "time": { "type": "string" },
                    "engine_args": { "type": "array", "items": { "type": "string", "pattern": "^-" } },
                    "directory": { "type": "string", "pattern": "^/" },
                    "program": { "type": "string", "pattern": "^[^-]" },
                    "paths": {
                        "type": "object",
                        "propertyNames": { "pattern": "^/" },
                        "additionalProperties": { "type": "string", "pattern": "^/" }
                    },
                    "env": {
                        "type": "array",
                        "items": { "type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_]*\*?$" }
                    },
                    "sync": {
                        "type": "array",
                        "items": { "type": "string", "pattern": "^[^/]" }
                    }
                },
                "additionalProperties": false
            }
        })
    }
}

/// The table of one executor.
struct ExecutorTable<'t> {
    name: &'t str,
    table: &'t BTreeMap<String, RawValue>,
}

fn read_executor(name: &str, raw: &RawValue) -> Result<ExecutorSettings, BadExecutor> {
    if !is_executor_name(name) || name == LOCAL_EXECUTOR {
        return Err(BadExecutor::Name { name: printable(name) });
    }
    let RawValue::Table(table) = raw else {
        let (field, found) = (name.to_owned(), describe_rejected(raw));
        return Err(BadExecutor::Value { field, found, allowed: TABLE_ALLOWED });
    };
    ExecutorTable { name, table }.read()
}

impl ExecutorTable<'_> {
    /// Keys of every kind.
    const KEYS: [&'static str; 5] = ["kind", "host", "program", "paths", "env"];
    /// Further keys of a machine that ssh reaches.
    const SSH_KEYS: [&'static str; 1] = ["sync"];
    /// Further keys of Slurm.
    const SLURM_KEYS: [&'static str; 9] = [
        "partition",
        "account",
        "cpus",
        "memory",
        "gpus",
        "nodes",
        "time",
        "engine_args",
        "directory",
    ];

    fn read(&self) -> Result<ExecutorSettings, BadExecutor> {
        let kind =
            self.text("kind", |kind| [SSH_KIND, SLURM_KIND].contains(&kind), KIND_ALLOWED)?;
        let is_slurm = kind.is_some_and(|kind| kind == SLURM_KIND);
        self.check_keys(is_slurm)?;
        let host = self.text("host", is_destination, HOST_ALLOWED)?;
        if host.is_none() && !is_slurm {
            return Err(BadExecutor::NoHost { name: self.name.to_owned() });
        }
        Ok(ExecutorSettings {
            host,
            slurm: is_slurm.then(|| self.slurm_options()).transpose()?,
            program: self.text("program", is_program_path, PROGRAM_ALLOWED)?,
            paths: self.paths()?,
            env: self.texts("env", is_variable_pattern, ENV_ALLOWED)?,
            sync: self.texts("sync", |path| parse_relative_path(path).is_ok(), SYNC_ALLOWED)?,
        })
    }

    fn check_keys(&self, is_slurm: bool) -> Result<(), BadExecutor> {
        let kind_keys: &[&str] = if is_slurm { &Self::SLURM_KEYS } else { &Self::SSH_KEYS };
        let is_known = |key: &str| Self::KEYS.contains(&key) || kind_keys.contains(&key);
        let Some(key) = self.table.keys().find(|key| !is_known(key)) else { return Ok(()) };
        let (name, key) = (self.name.to_owned(), printable(key));
        Err(BadExecutor::UnknownKey { name, key, is_cluster: is_slurm })
    }

    fn slurm_options(&self) -> Result<SlurmOptions, BadExecutor> {
        let number =
            |key| self.parsed(key, |text| text.parse().ok().filter(|n| *n > 0), NUMBER_ALLOWED);
        Ok(SlurmOptions {
            partition: self.text("partition", is_destination, WORD_ALLOWED)?,
            account: self.text("account", is_destination, WORD_ALLOWED)?,
            cpus: number("cpus")?,
            memory_mib: self.parsed(
                "memory",
                |text| parse_memory_mib(text).ok(),
                MEMORY_ALLOWED,
            )?,
            gpus: self.parsed(
                "gpus",
                |text| is_destination(text).then(|| text.to_owned()),
                WORD_ALLOWED,
            )?,
            nodes: number("nodes")?,
            time_minutes: self.parsed(
                "time",
                |text| parse_time_minutes(text).ok(),
                JOB_TIME_FORMS,
            )?,
            arguments: self.texts("engine_args", is_job_argument, ARGUMENTS_ALLOWED)?,
            directory: self.text("directory", is_absolute_path, DIRECTORY_ALLOWED)?,
            array: None,
        })
    }

    /// Returns the parsed value of a key, which is a text or a number; `None` if the table does not
    /// have the key.
    fn parsed<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        allowed: &'static str,
    ) -> Result<Option<T>, BadExecutor> {
        let Some(raw) = self.table.get(key) else { return Ok(None) };
        let number =
            if let RawValue::Integer(number) = raw { Some(number.to_string()) } else { None };
        let text = number.or_else(|| raw.as_text().map(str::to_owned));
        let value = text.and_then(|text| parse(&text));
        value.map(Some).ok_or_else(|| self.refuse(key, raw, allowed))
    }

    fn refuse(&self, key: &str, raw: &RawValue, allowed: &'static str) -> BadExecutor {
        let (field, found) = (format!("{}.{key}", self.name), describe_rejected(raw));
        BadExecutor::Value { field, found, allowed }
    }

    /// Returns the text of a key; `None` if the table does not have the key.
    fn text(
        &self,
        key: &str,
        is_allowed: fn(&str) -> bool,
        allowed: &'static str,
    ) -> Result<Option<String>, BadExecutor> {
        let Some(raw) = self.table.get(key) else { return Ok(None) };
        let text = raw.as_text().filter(|text| is_allowed(text));
        text.map(|text| Some(text.to_owned())).ok_or_else(|| self.refuse(key, raw, allowed))
    }

    fn paths(&self) -> Result<BTreeMap<String, String>, BadExecutor> {
        let Some(raw) = self.table.get("paths") else { return Ok(BTreeMap::new()) };
        let RawValue::Table(paths) = raw else {
            return Err(self.refuse("paths", raw, PATHS_ALLOWED));
        };
        let read = |(local, remote): (&String, &RawValue)| {
            let absolute = |raw: &RawValue| match raw.as_text() {
                Some(path) if is_absolute_path(path) => Ok(path.to_owned()),
                Some(_) | None => Err(self.refuse("paths", raw, PATHS_ALLOWED)),
            };
            Ok((absolute(&RawValue::Text(local.clone()))?, absolute(remote)?))
        };
        paths.iter().map(read).collect()
    }

    /// Returns the texts of a list; none if the table does not have the key.
    fn texts(
        &self,
        key: &str,
        is_allowed: fn(&str) -> bool,
        allowed: &'static str,
    ) -> Result<Vec<String>, BadExecutor> {
        let Some(raw) = self.table.get(key) else { return Ok(Vec::new()) };
        let RawValue::List(items) = raw else { return Err(self.refuse(key, raw, allowed)) };
        let read = |item: &RawValue| match item.as_text() {
            Some(text) if is_allowed(text) => Ok(text.to_owned()),
            Some(_) | None => Err(self.refuse(key, item, allowed)),
        };
        items.iter().map(read).collect()
    }
}

/// Returns whether ssh interprets a text as a destination. ssh interprets a text with `-` at its
/// beginning as an option.
fn is_destination(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || c.is_control();
    !text.is_empty() && !text.starts_with('-') && !text.contains(is_separator)
}

fn is_program_path(text: &str) -> bool {
    !text.trim().is_empty() && !text.starts_with('-') && !text.contains(char::is_control)
}

fn is_absolute_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('\0')
}

/// Returns whether a text is the name of a variable, or the beginning of names followed by `*`.
fn is_variable_pattern(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(is_plain)
}

fn executor_to_raw(executor: &ExecutorSettings) -> RawValue {
    let text = |text: &String| RawValue::Text(text.clone());
    let mut table = BTreeMap::new();
    if let Some(host) = &executor.host {
        table.insert("host".to_owned(), text(host));
    }
    if let Some(options) = &executor.slurm {
        table.extend(slurm_options_to_raw(options));
    }
    if let Some(program) = &executor.program {
        table.insert("program".to_owned(), text(program));
    }
    if !executor.paths.is_empty() {
        let paths = executor.paths.iter().map(|(local, remote)| (local.clone(), text(remote)));
        table.insert("paths".to_owned(), RawValue::Table(paths.collect()));
    }
    for (key, texts) in [("env", &executor.env), ("sync", &executor.sync)] {
        if !texts.is_empty() {
            table.insert(key.to_owned(), RawValue::List(texts.iter().map(text).collect()));
        }
    }
    RawValue::Table(table)
}

fn slurm_options_to_raw(options: &SlurmOptions) -> impl Iterator<Item = (String, RawValue)> {
    let text = |text: &String| RawValue::Text(text.clone());
    let number = |number: u32| RawValue::Integer(number.into());
    let arguments = || RawValue::List(options.arguments.iter().map(text).collect());
    let entries = [
        ("kind", Some(RawValue::Text(SLURM_KIND.to_owned()))),
        ("partition", options.partition.as_ref().map(text)),
        ("account", options.account.as_ref().map(text)),
        ("cpus", options.cpus.map(number)),
        ("memory", options.memory_mib.map(|mib| RawValue::Text(format!("{mib}M")))),
        ("gpus", options.gpus.as_ref().map(text)),
        ("nodes", options.nodes.map(number)),
        ("time", options.time_minutes.map(|minutes| RawValue::Text(format!("{minutes}m")))),
        ("engine_args", (!options.arguments.is_empty()).then(arguments)),
        ("directory", options.directory.as_ref().map(text)),
    ];
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> RawValue {
        RawValue::Text(text.to_owned())
    }

    fn table(entries: &[(&str, RawValue)]) -> RawValue {
        let entries = entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        RawValue::Table(entries.collect())
    }

    /// Returns the table `[executor.build]` with a host and these entries.
    fn build(entries: &[(&str, RawValue)]) -> RawValue {
        let host = [("host", text("me@build"))];
        table(&[("build", table(&[&host[..], entries].concat()))])
    }

    fn error(raw: &RawValue) -> String {
        Executors::read(raw).expect_err("an invalid value").to_string()
    }

    #[test]
    fn executors_round_trip() {
        let paths = table(&[("/home/me/src", text("/srv/src"))]);
        let env = RawValue::List(vec![text("CI"), text("RUST_*")]);
        let sync = RawValue::List(vec![text("data"), text("build/config.h")]);
        let raw = table(&[
            ("gpu", table(&[("host", text("gpu"))])),
            (
                "build",
                table(&[
                    ("host", text("me@build")),
                    ("program", text("/opt/siding")),
                    ("paths", paths),
                    ("env", env),
                    ("sync", sync),
                ]),
            ),
        ]);
        let executors = Executors::read(&raw).expect("valid executors");
        assert_eq!(executors.raw(), raw);
        assert_eq!(executors.names().collect::<Vec<_>>(), ["build", "gpu"]);
        let build = executors.get("build").expect("an executor");
        assert_eq!(
            (build.host.as_deref(), build.program.as_deref()),
            (Some("me@build"), Some("/opt/siding"))
        );
        assert_eq!(build.remote_directory("/home/me/src/a"), "/srv/src/a");
        assert!(build.sends_variable("RUST_LOG"));
        assert_eq!(executors.iter().next(), Some(("build", build)));
        assert_eq!(executors.get("local"), None);
        assert_eq!(raw.to_string(), "build, gpu");
    }

    #[test]
    fn no_executors_are_displayed_as_none() {
        let none = Executors::default();
        assert_eq!(none.raw().to_string(), "none");
        assert_eq!(Executors::read(&text(" none ")), Ok(none.clone()));
        assert_eq!(Executors::read(&table(&[])), Ok(none));
        let called_name = table(&[("name", table(&[("host", text("build"))]))]);
        assert_eq!(called_name.to_string(), "name");
    }

    #[test]
    fn the_default_kind_is_ssh() {
        let executors = Executors::read(&build(&[("kind", text("ssh"))])).expect("valid");
        assert_eq!(executors.raw(), build(&[]));
        let refused = error(&build(&[("kind", text("docker"))]));
        assert_eq!(refused, "`build.kind`: `docker` is not allowed here; write `ssh` or `slurm`");
    }

    #[test]
    fn a_slurm_cluster_needs_no_host() {
        let cluster = |entries: &[(&str, RawValue)]| {
            let kind = ("kind", text("slurm"));
            table(&[("cluster", table(&[&[kind][..], entries].concat()))])
        };
        let raw = cluster(&[
            ("host", text("login")),
            ("partition", text("gpu")),
            ("account", text("lab")),
            ("cpus", RawValue::Integer(4)),
            ("memory", text("8192M")),
            ("gpus", text("a100:2")),
            ("nodes", RawValue::Integer(2)),
            ("time", text("90m")),
            ("engine_args", RawValue::List(vec![text("--qos=high")])),
            ("directory", text("/scratch/me")),
        ]);
        assert_eq!(Executors::read(&raw).map(|executors| executors.raw()), Ok(raw));
        let short = cluster(&[
            ("memory", text("8GiB")),
            ("time", text("2:00")),
            ("gpus", RawValue::Integer(1)),
        ]);
        let long = cluster(&[("memory", text("8192M")), ("time", text("2m")), ("gpus", text("1"))]);
        assert_eq!(Executors::read(&short).map(|executors| executors.raw()), Ok(long));
        for (key, value, part) in [
            (
                "cpus",
                RawValue::Integer(0),
                "`cluster.cpus`: `0` is not allowed here; write a number",
            ),
            ("memory", text("much"), "`much` is not allowed here; write an amount of memory"),
            ("time", text("soon"), "`soon` is not allowed here; write a duration"),
            (
                "time",
                RawValue::Integer(90),
                "`90` is not allowed here; write a duration such as `90m`",
            ),
            ("engine_args", text("--x"), "`--x` is not allowed here; write a list of options"),
            ("partition", text("-x"), "`-x` is not allowed here; write a name"),
            ("directory", text("scratch"), "`scratch` is not allowed here; write an absolute path"),
            (
                "prtition",
                text("gpu"),
                "unknown key `prtition` of `cluster` (did you mean `partition`?); the keys of a \
                 Slurm",
            ),
            ("sync", text("data"), "`cluster`, which only an executor with `kind = \"ssh\"` has"),
        ] {
            let refused = error(&cluster(&[(key, value)]));
            assert!(refused.contains(part), "{refused}");
        }
        let refused = error(&build(&[("partition", text("gpu"))]));
        assert!(
            refused.contains(
                "unknown key `partition` of `build`, which only an executor with \
                 `kind = \"slurm\"` has; the keys are `kind`"
            ),
            "{refused}"
        );
    }

    #[test]
    fn other_values_than_tables_are_refused() {
        for (raw, found) in [
            (text("build"), "`build` is not allowed here; write a table `[executor.NAME]`"),
            (RawValue::Boolean(true), "`true` is not allowed here"),
            (RawValue::List(Vec::new()), "`an array` is not allowed here"),
            (table(&[("build", text("me@build"))]), "`build`: `me@build` is not allowed here"),
        ] {
            let refused = error(&raw);
            assert!(refused.starts_with(found), "{refused}");
        }
        assert!(error(&text("build")).ends_with("a variable can only be `none`"));
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "a b", "a.b", "local", "\u{1b}[2J", &"x".repeat(41)] {
            let refused = error(&table(&[(name, table(&[("host", text("build"))]))]));
            assert!(
                refused.contains("cannot be the name of an executor; write 1 to 40"),
                "{refused}"
            );
            assert!(!refused.contains('\u{1b}'), "{refused:?}");
        }
    }

    #[test]
    fn a_bad_table_error_says_what_is_wrong() {
        let list = |names: &[&str]| RawValue::List(names.iter().map(|name| text(name)).collect());
        for (key, value, part) in [
            (
                "hots",
                text("build"),
                "unknown key `hots` of `build` (did you mean `host`?); the keys are `kind`, `host`",
            ),
            ("hostname", text("build"), "`hostname` of `build` (did you mean `host`?)"),
            ("partitoin", text("gpu"), "did you mean `partition`, which only an executor with"),
            ("colour", text("red"), "unknown key `colour` of `build`; the keys are `kind`"),
            ("program", text(" "), "`build.program`: ` ` is not allowed here; write the path"),
            ("program", text("-x"), "`-x` is not allowed here"),
            ("program", RawValue::Integer(1), "`1` is not allowed here"),
            ("paths", text("/a"), "`build.paths`: `/a` is not allowed here; write a table"),
            ("paths", table(&[("src", text("/srv"))]), "`src` is not allowed here; write a table"),
            ("paths", table(&[("/src", text("~/srv"))]), "`~/srv` is not allowed here"),
            ("paths", table(&[("/src", RawValue::Boolean(true))]), "`true` is not allowed here"),
            ("env", text("CI"), "`build.env`: `CI` is not allowed here; write a list of names"),
            ("env", list(&["CI", "A=b"]), "`A=b` is not allowed here"),
            ("env", list(&["*"]), "`*` is not allowed here"),
            ("env", list(&["A*B"]), "`A*B` is not allowed here"),
            ("env", list(&["1A"]), "`1A` is not allowed here"),
            (
                "sync",
                text("data"),
                "`build.sync`: `data` is not allowed here; write a list of paths",
            ),
            ("sync", RawValue::Boolean(true), "`build.sync`: `true` is not allowed here"),
            ("sync", list(&["data", "../secret"]), "`../secret` is not allowed here"),
            ("sync", list(&["/etc"]), "`/etc` is not allowed here"),
        ] {
            let refused = error(&build(&[(key, value)]));
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn a_host_is_one_word_that_is_no_option() {
        for host in ["build", "me@build.example.org", "ssh://me@build:2222", "::1"] {
            let raw = table(&[("build", table(&[("host", text(host))]))]);
            assert_eq!(Executors::read(&raw).map(|executors| executors.raw()), Ok(raw), "{host}");
        }
        for host in ["", "-oProxyCommand=x", "a b", "a\tb", "a\nb", "a\u{1b}b", "a\u{a0}b"] {
            let refused = error(&table(&[("build", table(&[("host", text(host))]))]));
            assert!(
                refused.contains("is not allowed here; write the destination for ssh"),
                "{refused}"
            );
        }
        let refused = error(&table(&[("build", table(&[]))]));
        assert!(
            refused.starts_with("`build` has no `host`; write `host = \"DESTINATION\"`"),
            "{refused}"
        );
    }
}

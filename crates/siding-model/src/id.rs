//! Identifiers of tasks, hosts and sessions.
//!
//! The 60 bits of a task id are also the task's *birthmark*: the number that every process of the
//! task inherits as its `RLIMIT_RTTIME` (see [`Birthmark`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Crockford's base32 in lower case, without `i`, `l` and `o`, which look like digits, and `u`.
const BASE32_ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The value of each byte as a base32 digit, or [`INVALID_DIGIT`].
const DIGIT_VALUES: [u8; 256] = {
    let mut values = [INVALID_DIGIT; 256];
    let mut value = 0;
    while value < BASE32_ALPHABET.len() {
        values[BASE32_ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};
const INVALID_DIGIT: u8 = u8::MAX;
/// Digits after the kind's letter and the dash; 12 × 5 bits = 60 bits.
const ID_DIGITS: usize = 12;
/// The bits of an id that encode its kind.
const KIND_TAG_MASK: u64 = 0xfff;

/// Kind of a task, which determines the first letter of its id.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A shell command or program on this machine.
    #[default]
    LocalBash,
    /// A subagent, which works for another agent.
    LocalAgent,
    /// A task that an agent on another machine carries out.
    RemoteAgent,
    /// An agent that runs in the process of another agent.
    InProcessTeammate,
    /// A workflow: steps with dependencies.
    LocalWorkflow,
    /// A monitor of another MCP server.
    MonitorMcp,
    /// Consolidation of an agent's notes while no user works.
    Dream,
}

impl TaskKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::LocalBash,
        Self::LocalAgent,
        Self::RemoteAgent,
        Self::InProcessTeammate,
        Self::LocalWorkflow,
        Self::MonitorMcp,
        Self::Dream,
    ];

    /// Returns the name of the kind in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalBash => "local_bash",
            Self::LocalAgent => "local_agent",
            Self::RemoteAgent => "remote_agent",
            Self::InProcessTeammate => "in_process_teammate",
            Self::LocalWorkflow => "local_workflow",
            Self::MonitorMcp => "monitor_mcp",
            Self::Dream => "dream",
        }
    }

    /// Returns the word for the kind that a person sees.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::LocalBash => "command",
            Self::LocalAgent => "subagent",
            Self::RemoteAgent => "remote agent",
            Self::InProcessTeammate => "teammate",
            Self::LocalWorkflow => "workflow",
            Self::MonitorMcp => "monitor of an MCP server",
            Self::Dream => "dream",
        }
    }

    /// Returns whether a task of this kind is an agent with its own session, named after the task.
    /// When the agent ends, its tasks pass to the session that started the agent.
    #[must_use]
    pub const fn has_session(self) -> bool {
        match self {
            Self::LocalAgent | Self::InProcessTeammate => true,
            Self::LocalBash
            | Self::RemoteAgent
            | Self::LocalWorkflow
            | Self::MonitorMcp
            | Self::Dream => false,
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::LocalBash => 'b',
            Self::LocalAgent => 'a',
            Self::RemoteAgent => 'r',
            Self::InProcessTeammate => 't',
            Self::LocalWorkflow => 'w',
            Self::MonitorMcp => 'm',
            Self::Dream => 'd',
        }
    }

    /// Returns the value of the low bits of an id that marks this kind. A shell command has none:
    /// its low bits have any value that marks no other kind.
    const fn tag_bits(self) -> Option<u64> {
        match self {
            Self::LocalBash => None,
            Self::LocalAgent => Some(0x5d1),
            Self::RemoteAgent => Some(0x5d2),
            Self::InProcessTeammate => Some(0x5d3),
            Self::LocalWorkflow => Some(0x5d4),
            Self::MonitorMcp => Some(0x5d5),
            Self::Dream => Some(0x5d6),
        }
    }

    /// Returns the kind that the bits of an id encode. The kind is part of the bits so that a
    /// process's birthmark alone gives the whole id of its task.
    const fn from_bits(bits: u64) -> Self {
        match bits & KIND_TAG_MASK {
            0x5d1 => Self::LocalAgent,
            0x5d2 => Self::RemoteAgent,
            0x5d3 => Self::InProcessTeammate,
            0x5d4 => Self::LocalWorkflow,
            0x5d5 => Self::MonitorMcp,
            0x5d6 => Self::Dream,
            _ => Self::LocalBash,
        }
    }
}

/// The permanent id of one task: a kind's letter, a dash, and 60 bits. The bits are random, except
/// that the lowest twelve encode the kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u64);

impl TaskId {
    /// Smallest usable id. As the value of `RLIMIT_RTTIME`, 2^40 µs allow a program twelve days of
    /// real-time CPU time without a blocking call; a much smaller value could terminate it.
    pub const MIN_BITS: u64 = 1 << 40;
    /// Largest usable id: 60 bits, or 12 base32 digits.
    pub const MAX_BITS: u64 = (1 << 60) - 1;
    /// If at most this many ids are left below a bound, none of them is chosen: random ids would
    /// soon collide.
    pub const TOO_FEW_IDS: u64 = 1 << 28;

    /// Returns the id with these bits, or `None` when they are outside
    /// [`Self::MIN_BITS`]`..=`[`Self::MAX_BITS`] or encode another kind.
    #[must_use]
    pub const fn new(kind: TaskKind, bits: u64) -> Option<Self> {
        match Self::from_bits(bits) {
            Some(id) if id.kind() as u8 == kind as u8 => Some(id),
            _ => None,
        }
    }

    const fn from_bits(bits: u64) -> Option<Self> {
        if bits < Self::MIN_BITS || bits > Self::MAX_BITS { None } else { Some(Self(bits)) }
    }

    /// Returns the number of values below `upper_bound` among which [`Self::from_random`] chooses,
    /// whatever the kind.
    #[must_use]
    pub const fn count_below(upper_bound: u64) -> u64 {
        let most = if upper_bound > Self::MAX_BITS { Self::MAX_BITS } else { upper_bound };
        (most & !KIND_TAG_MASK).saturating_sub(Self::MIN_BITS)
    }

    /// Derives an id of a kind below `upper_bound` from a random number. A nested task needs a
    /// smaller id than its parent; the result is `None` when at most [`Self::TOO_FEW_IDS`] are left
    /// below the bound.
    #[must_use]
    pub const fn from_random(kind: TaskKind, random: u64, upper_bound: u64) -> Option<Self> {
        let span = Self::count_below(upper_bound);
        if span <= Self::TOO_FEW_IDS {
            return None;
        }
        let bits = Self::MIN_BITS + random % span;
        Some(Self(match kind.tag_bits() {
            Some(tag) => bits & !KIND_TAG_MASK | tag,
            // The random bits are the tag of another kind: one flipped bit makes them an id of a
            // shell command.
            None if !matches!(TaskKind::from_bits(bits), TaskKind::LocalBash) => bits ^ 0x800,
            None => bits,
        }))
    }

    /// Returns the kind that the low bits of the id encode.
    #[must_use]
    pub const fn kind(self) -> TaskKind {
        TaskKind::from_bits(self.0)
    }

    /// Returns the birthmark of the task's processes.
    #[must_use]
    pub const fn birthmark(self) -> Birthmark {
        Birthmark(self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.kind().letter())?;
        let mut digits = [0; ID_DIGITS];
        for (place, digit) in digits.iter_mut().rev().enumerate() {
            *digit = BASE32_ALPHABET[(self.0 >> (place * 5)) as usize & 31];
        }
        f.write_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a task id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a task id; an id looks like `b-4k7q0n2m8x5t`")]
pub struct BadTaskId {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        let bad = || BadTaskId { text: text.to_owned() };
        let [letter, b'-', digits @ ..] = text.as_bytes() else { return Err(bad()) };
        if digits.len() != ID_DIGITS {
            return Err(bad());
        }
        let mut bits = 0;
        for digit in digits {
            let value = DIGIT_VALUES[usize::from(*digit)];
            if value == INVALID_DIGIT {
                return Err(bad());
            }
            bits = bits << 5 | u64::from(value);
        }
        let id = Self::from_bits(bits).ok_or_else(bad)?;
        if id.kind().letter() == char::from(*letter) { Ok(id) } else { Err(bad()) }
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for TaskId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^[a-z]-[0-9a-hjkmnp-tv-z]{12}$"
        })
    }
}

/// The number that marks every process of a task, or of a host outside of tasks.
///
/// The number is set as the soft and hard `RLIMIT_RTTIME`: before exec, or at the adoption of a
/// running process. This limit is inherited across fork, exec, setsid, a cleared environment and
/// sudo, and every user can read it in `/proc/PID/limits` (setrlimit(2)). An unprivileged process
/// can only lower a hard limit, so a nested task gets a smaller number than its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Birthmark(pub u64);

impl Birthmark {
    /// Returns the id of the task with this birthmark, if the number is a valid task id.
    #[must_use]
    pub const fn task_id(self) -> Option<TaskId> {
        TaskId::from_bits(self.0)
    }

    /// Returns the host mark with this number, if the number is a valid host mark.
    #[must_use]
    pub const fn host_mark(self) -> Option<HostMark> {
        HostMark::new(self.0)
    }

    /// Birthmark of siding's host supervisors. A supervisor carries no host mark, because it
    /// terminates all processes with the mark of its host.
    pub const SUPERVISOR: Self = Self(TaskId::MAX_BITS + 1);
    /// Birthmark of a process that was released from its task. The number is smaller than every
    /// task's birthmark, because an unprivileged process can only lower the limit.
    pub const RELEASED: Self = Self(TaskId::MIN_BITS - 1);
}

/// The mark of a host's process and of the processes that it starts outside of tasks: a
/// [`Birthmark`] greater than every task's.
///
/// A host mark is greater because an unprivileged process can only lower a hard limit: a shell that
/// inherited the mark of its host can thus become a process of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostMark(u64);

impl HostMark {
    /// Smallest usable host mark. In decimal, the form in `/proc/PID/limits`, every host mark has
    /// 19 digits and starts with 2, 3 or 4; a task's birthmark of 19 digits starts with 1. A shell
    /// distinguishes the two kinds of marks by these digits.
    pub const MIN_BITS: u64 = 1 << 61;
    /// Largest usable host mark.
    pub const MAX_BITS: u64 = (1 << 62) - 1;
    /// Hexadecimal digits after the letter and the dash.
    const HEX_DIGITS: usize = 16;

    /// Returns the mark with these bits, or `None` when they are outside
    /// [`Self::MIN_BITS`]`..=`[`Self::MAX_BITS`].
    #[must_use]
    pub const fn new(bits: u64) -> Option<Self> {
        if bits < Self::MIN_BITS || bits > Self::MAX_BITS { None } else { Some(Self(bits)) }
    }

    /// Derives a mark below `upper_bound` from a random number. A host that another host started
    /// needs a smaller mark than its parent; the result is `None` when too few marks are left below
    /// the bound.
    #[must_use]
    pub const fn from_random(random: u64, upper_bound: u64) -> Option<Self> {
        /// Minimum number of marks to choose from: among fewer, random marks would soon collide.
        const MIN_ID_COUNT: u64 = 1 << 28;
        let most = if upper_bound > Self::MAX_BITS { Self::MAX_BITS } else { upper_bound };
        let span = most.saturating_sub(Self::MIN_BITS);
        if span <= MIN_ID_COUNT { None } else { Some(Self(Self::MIN_BITS + random % span)) }
    }

    /// Returns the birthmark of the host's processes.
    #[must_use]
    pub const fn birthmark(self) -> Birthmark {
        Birthmark(self.0)
    }
}

impl fmt::Display for HostMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h-{:0width$x}", self.0, width = Self::HEX_DIGITS)
    }
}

impl fmt::Debug for HostMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a host mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host mark; a host mark looks like `h-2f3c9a0b1d4e5f60`")]
pub struct BadHostMark {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl FromStr for HostMark {
    type Err = BadHostMark;

    fn from_str(text: &str) -> Result<Self, BadHostMark> {
        let bad = || BadHostMark { text: text.to_owned() };
        let digits = text.strip_prefix("h-").filter(|digits| digits.len() == Self::HEX_DIGITS);
        let digits = digits.ok_or_else(bad)?;
        // `from_str_radix` also accepts a sign and capital letters, which would give a mark several
        // spellings.
        if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        u64::from_str_radix(digits, 16).ok().and_then(Self::new).ok_or_else(bad)
    }
}

impl Serialize for HostMark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostMark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The name of a session, which owns tasks: usually one conversation of an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SessionId(String);

/// The error for a text that cannot name a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot name a session; use 1 to {} of `A-Z a-z 0-9 . _ -`, not starting with `.` or `-`",
    SessionId::MAX_BYTES
)]
pub struct BadSessionId {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl SessionId {
    /// Maximum length of a name, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// Returns the session for commands that specify no session. This session has no owner and
    /// never ends.
    #[must_use]
    pub fn implicit() -> Self {
        Self("cli".to_owned())
    }

    /// Returns whether this is the session for commands that specify no session.
    #[must_use]
    pub fn is_implicit(&self) -> bool {
        self.0 == "cli"
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty()
            || text.len() > Self::MAX_BYTES
            || text.starts_with(['.', '-'])
            || !text.chars().all(allowed)
        {
            return Err(BadSessionId { text: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_task_id_round_trips_through_text(bits in TaskId::MIN_BITS..=TaskId::MAX_BITS) {
            let id = TaskId::from_bits(bits).unwrap();
            let text = id.to_string();
            prop_assert_eq!(text.len(), 14);
            prop_assert_eq!(text.parse::<TaskId>().unwrap(), id);
            prop_assert_eq!(id.birthmark().task_id(), Some(id));
            prop_assert_eq!(TaskId::new(id.kind(), bits), Some(id));
        }

        #[test]
        fn a_random_id_has_its_kind_and_is_below_its_parent_id(
            kind in proptest::sample::select(&TaskKind::ALL),
            random: u64,
            most in TaskId::MIN_BITS * 2..=u64::MAX,
        ) {
            let id = TaskId::from_random(kind, random, most).expect("ids are left below the bound");
            prop_assert_eq!(id.kind(), kind);
            prop_assert!(id.birthmark().0 < most);
            prop_assert!((TaskId::MIN_BITS..=TaskId::MAX_BITS).contains(&id.birthmark().0));
            let text = id.to_string();
            prop_assert_eq!(text.parse::<TaskId>().unwrap(), id);
            for other in TaskKind::ALL {
                let lie = text.replacen(kind.letter(), &other.letter().to_string(), 1);
                prop_assert_eq!(lie.parse::<TaskId>().is_ok(), other == kind);
            }
        }

        #[test]
        fn a_host_mark_round_trips_and_exceeds_every_task_birthmark(
            random: u64,
            most in HostMark::MIN_BITS * 5 / 4..=u64::MAX,
        ) {
            let mark = HostMark::from_random(random, most).expect("marks are left below the bound");
            prop_assert!(mark.birthmark().0 < most);
            prop_assert_eq!(mark.to_string().parse::<HostMark>(), Ok(mark));
            prop_assert_eq!(mark.birthmark().host_mark(), Some(mark));
            prop_assert_eq!(mark.birthmark().task_id(), None);
            prop_assert!(mark.birthmark().0 > Birthmark::SUPERVISOR.0);
            let shown = mark.birthmark().0.to_string();
            prop_assert!(shown.len() == 19 && shown.starts_with(['2', '3', '4']), "{}", shown);
        }

        #[test]
        fn text_order_matches_numeric_order(a in TaskId::MIN_BITS..=TaskId::MAX_BITS,
                                      b in TaskId::MIN_BITS..=TaskId::MAX_BITS) {
            let (a, b) = (TaskId::from_bits(a).unwrap(), TaskId::from_bits(b).unwrap());
            prop_assume!(a.kind() == b.kind());
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }

    #[test]
    fn each_kind_has_a_unique_letter_name_label_and_tag() {
        let mut seen = std::collections::HashSet::new();
        for kind in TaskKind::ALL {
            assert!(seen.insert(kind.letter().to_string()), "{kind:?}");
            assert!(seen.insert(kind.label().to_owned()), "{kind:?}");
            assert_eq!(TaskKind::from_bits(kind.tag_bits().unwrap_or(0)), kind);
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn deeply_nested_tasks_get_no_id() {
        for most in [0, TaskId::MIN_BITS, TaskId::MIN_BITS + (1 << 20)] {
            assert_eq!(TaskId::from_random(TaskKind::LocalBash, 7, most), None);
        }
    }

    #[test]
    fn invalid_task_ids_are_rejected() {
        for text in [
            "",
            "b-",
            "b-4k7q0n2m8x5",
            "b-4k7q0n2m8x5tt",
            "B-4k7q0n2m8x5t",
            "b-4k7q0n2m8x5u",
            "x-4k7q0n2m8x5t",
            "b-000000000001",
            "../etc/passwd",
        ] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
    }

    #[test]
    fn reserved_birthmarks_are_neither_task_nor_host() {
        for mark in [Birthmark::SUPERVISOR, Birthmark::RELEASED] {
            assert_eq!((mark.task_id(), mark.host_mark()), (None, None));
        }
        const { assert!(Birthmark::SUPERVISOR.0 > TaskId::MAX_BITS) };
        const { assert!(Birthmark::RELEASED.0 < TaskId::MIN_BITS) };
        // A shell distinguishes a host mark from a task's birthmark by the decimal digits.
        let most = TaskId::MAX_BITS.to_string();
        assert!(most.len() == 19 && most.starts_with('1'));
    }

    #[test]
    fn deeply_nested_hosts_get_no_mark() {
        assert_eq!(HostMark::from_random(7, HostMark::MIN_BITS), None);
        assert_eq!(HostMark::from_random(7, TaskId::MAX_BITS), None);
    }

    #[test]
    fn invalid_host_marks_are_rejected() {
        for text in [
            "",
            "h-",
            "h-2f3c9a0b1d4e5f6",
            "h-+f3c9a0b1d4e5f60",
            "h-2F3C9A0B1D4E5F60",
            "h-0000000000000000",
        ] {
            assert!(text.parse::<HostMark>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_session_id_is_safe_as_a_file_name() {
        for text in ["", ".", "..", "a/b", "-x", "a b", "a\n", "\u{e9}"] {
            assert!(text.parse::<SessionId>().is_err(), "{text:?}");
        }
        assert!("0b7c-UUID.like_1".parse::<SessionId>().is_ok());
        assert!("x".repeat(65).parse::<SessionId>().is_err());
    }
}

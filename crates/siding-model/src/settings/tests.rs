mod restrictions;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limits::{Limits, OnLimit};
use crate::net::NetPolicy;
use crate::signal::Signal;
use crate::size::Bytes;
use crate::spec::OnLeaderExit;
use crate::unowned::UnownedReapMode;

fn system_source() -> SettingSource {
    SettingSource {
        origin: Origin::System { path: "/etc/siding/config.toml".into() },
        line: Some(3),
    }
}

fn host_source() -> SettingSource {
    Origin::Host { path: "/h/settings.json".into() }.into()
}

fn user_source() -> SettingSource {
    SettingSource { origin: Origin::User { path: "/u/config.toml".into() }, line: Some(2) }
}

fn project_source() -> SettingSource {
    Origin::Project { path: "/p/config.toml".into() }.into()
}

fn env_source(key: Key) -> SettingSource {
    Origin::Environment { name: key.env_var() }.into()
}

fn call_source() -> SettingSource {
    Origin::Call { flag: "--timeout".to_owned() }.into()
}

fn text_value(value: &str) -> RawValue {
    RawValue::Text(value.to_owned())
}

fn layer(place: &SettingSource, values: &[(Key, &str)]) -> Layer {
    let mut layer = Layer::default();
    for (key, value) in values {
        layer.set(*key, &text_value(value), place.clone()).expect("a legal value");
    }
    layer
}

fn set_error(key: Key, raw: RawValue) -> String {
    let mut layer = Layer::default();
    let error = layer.set(key, &raw, user_source()).expect_err("an illegal value");
    assert_eq!(layer, Layer::default(), "a refused value leaves nothing behind");
    error.to_string()
}

fn warning_texts(settings: &Settings) -> Vec<String> {
    settings.warnings().iter().map(SettingsWarning::to_string).collect()
}

#[test]
fn the_built_in_values_are_the_documented_ones() {
    let shown: Vec<_> = Settings::default()
        .entries()
        .map(|entry| {
            assert_eq!(*entry.source, Origin::BuiltIn.into());
            format!("{}={}", entry.key, entry.value)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "blocking_budget=15s",
            "budget=off",
            "max_elapsed=30m",
            "max_elapsed_hard_cap=4h",
            "kill_signal=SIGTERM",
            "kill_grace=10s",
            "session_grace=2s",
            "assistant_mode=auto",
            "run_terminal=auto",
            "attach_idle=30s",
            "background_tasks=true",
            "auto_background=false",
            "on_leader_exit=linger",
            "shell=bash",
            "settle=0s",
            "stall_after=45s",
            "deadline_notice=2m",
            "adopt_keep_after=2s",
            "supervise_hosts=true",
            "spare_programs=editors, browsers",
            "max_memory=0B",
            "min_available=0B",
            "max_processes=0",
            "max_fds=0",
            "max_cpu_spin=0s",
            "max_connection_age=0s",
            "max_sent=0B",
            "max_output_rate=0B/s",
            "on_limit=notice",
            "watch_cpu_spin=5m",
            "watch_fds=4096",
            "watch_connection_age=30m",
            "watch_sent=1GiB",
            "net=host",
            "executor=none",
            "default_executor=local",
            "output_keep_head=8MiB",
            "output_keep_tail=56MiB",
            "output_max_bytes=32KiB",
            "handover_max_bytes=4KiB",
            "wait_bound=4h",
            "retention_age=7d",
            "retention_tasks=1000",
            "retention_bytes=2GiB",
            "notify_desktop=false",
            "notify_bell=false",
            "reap_sockets=/tmp/claude-http-*.sock, /tmp/claude-socks-*.sock, /tmp/srt-mux-*.sock",
            "reap_foreign=claude-sandbox",
            "foreign_reap=end",
            "notify_webhook=off",
            "report_daily=false",
            "log_journald=false",
        ]
    );
    assert_eq!(Settings::merge([]), Settings::default());
}

#[test]
fn every_built_in_value_is_legal_and_round_trips() {
    let builtin = Settings::default();
    for key in Key::ALL {
        let raw = builtin.value(*key);
        for raw in [raw.clone(), text_value(&raw.to_string())] {
            let mut layer = Layer::default();
            layer.set(*key, &raw, user_source()).expect("a legal value");
            assert_eq!(Settings::merge([layer]).value(*key), builtin.value(*key));
        }
        assert_eq!(Key::from_name(key.name()), Some(*key));
        assert!(key.about().ends_with('.') && !key.about().starts_with(' '));
    }
    assert_eq!(Key::OutputKeepTail.env_var(), "SIDING_OUTPUT_KEEP_TAIL");
}

#[test]
fn values_of_every_kind_are_parsed() {
    let mut layer = Layer::default();
    for (key, raw) in [
        (Key::BlockingBudget, text_value("1h 30m")),
        (Key::KillSignal, RawValue::Integer(2)),
        (Key::AssistantMode, text_value("off")),
        (Key::BackgroundTasks, RawValue::Boolean(false)),
        (Key::OnLeaderExit, text_value("reap")),
        (Key::Shell, text_value("/bin/zsh")),
        (Key::OutputKeepHead, RawValue::Integer(0)),
        (Key::OutputKeepTail, text_value("1 GiB")),
        (Key::RetentionTasks, RawValue::Integer(5)),
        (Key::MaxMemory, text_value("4 GiB")),
        (Key::MaxSent, RawValue::Integer(7)),
        (Key::MaxOutputRate, text_value(" 2MiB/s ")),
        (Key::OnLimit, text_value("stop")),
        (Key::DefaultExecutor, text_value("build")),
    ] {
        layer.set(key, &raw, user_source()).expect("a legal value");
    }
    let settings = Settings::merge([layer]);
    assert_eq!(settings.blocking_budget, Duration::from_secs(5400));
    assert_eq!(settings.kill_signal, Signal::INT);
    assert_eq!(settings.assistant_mode, AssistantMode::Off);
    assert!(!settings.background_tasks);
    assert_eq!(settings.on_leader_exit, OnLeaderExit::Reap);
    assert_eq!(settings.shell, "/bin/zsh");
    assert_eq!(settings.output_keep_head, Bytes(0));
    assert_eq!(settings.output_keep_tail, Bytes::gib(1));
    assert_eq!(settings.retention_tasks, 5);
    assert_eq!(settings.default_executor, "build");
    let limits = Limits {
        memory: 4 << 30,
        sent: 7,
        output_rate: 2 << 20,
        on_limit: OnLimit::Stop,
        ..Limits::default()
    };
    assert_eq!(settings.limits(), limits);
    assert_eq!(settings.origin(Key::Shell), &user_source().origin);
    assert_eq!(settings.origin(Key::Settle), &Origin::BuiltIn);
}

#[test]
fn a_later_layer_overrides_and_is_recorded_as_origin() {
    let key = Key::KillGrace;
    let order = [
        system_source(),
        host_source(),
        user_source(),
        project_source(),
        env_source(key),
        call_source(),
    ];
    for top in 0..order.len() {
        let layers = order[..=top].iter().enumerate();
        let settings =
            Settings::merge(layers.map(|(n, place)| layer(place, &[(key, &format!("{n}s"))])));
        assert_eq!(settings.kill_grace, Duration::from_secs(top as u64));
        assert_eq!(settings.origin(key), &order[top].origin);
    }
}

#[test]
fn errors_name_source_key_value_and_allowed_values() {
    for (key, raw, message) in [
        (
            Key::MaxElapsed,
            RawValue::Integer(1800),
            "`/u/config.toml` line 2: `max_elapsed`: `1800` has no unit; write `1800s` for seconds, or another of ms, s, m, h, d, w",
        ),
        (
            Key::MaxElapsed,
            text_value("0s"),
            "`/u/config.toml` line 2: `max_elapsed`: `0s` is not allowed here; write a value above zero",
        ),
        (
            Key::AssistantMode,
            text_value("yes"),
            "`/u/config.toml` line 2: `assistant_mode`: `yes` is not allowed here; write `auto`, `on` or `off`",
        ),
        (
            Key::BackgroundTasks,
            RawValue::Integer(7),
            "`/u/config.toml` line 2: `background_tasks`: `7` is not allowed here; write `true` or `false`",
        ),
        (
            Key::RetentionTasks,
            RawValue::Integer(-1),
            "`/u/config.toml` line 2: `retention_tasks`: `-1` is not allowed here; write a whole number from 0 to 4294967295",
        ),
        (
            Key::KillGrace,
            RawValue::Other("an array"),
            "`/u/config.toml` line 2: `kill_grace`: `an array` is not allowed here; write a duration such as `15s`, `30m` or `1h30m`",
        ),
    ] {
        assert_eq!(set_error(key, raw), message);
    }
    for (key, raw, part) in [
        (Key::KillSignal, text_value("BOOM"), "`BOOM` is not a signal"),
        (Key::KillSignal, text_value("STOP"), "lets a process end"),
        (Key::KillSignal, RawValue::Boolean(true), "a signal such as"),
        (Key::OutputKeepTail, text_value("8M"), "as in `8MiB`"),
        (Key::OutputKeepTail, RawValue::Integer(0), "a value above zero"),
        (Key::OutputMaxBytes, RawValue::Integer(-5), "not a size"),
        (Key::OnLeaderExit, RawValue::Boolean(true), "`linger` or `reap`"),
        (Key::Shell, text_value(" "), "such as `bash`"),
        (Key::Shell, text_value("ba\0sh"), "ba\\x00sh"),
        (Key::Shell, RawValue::Integer(1), "a text in quotes"),
        (Key::DefaultExecutor, text_value(""), "`local`, or the name of an executor"),
        (Key::DefaultExecutor, text_value("me@build"), "`local`, or the name of an executor"),
        (Key::Settle, text_value("\x1b[2J"), "`\\e[2J` is not a duration"),
    ] {
        let message = set_error(key, raw);
        assert!(message.contains(part), "{message}");
    }
    let mut layer = Layer::default();
    let error =
        layer.set(Key::Settle, &text_value("x"), env_source(Key::Settle)).expect_err("no duration");
    assert!(error.to_string().starts_with("environment variable `SIDING_SETTLE`: `x` is not"));
    let error = layer.set(Key::Settle, &text_value("x"), call_source()).expect_err("no duration");
    assert!(error.to_string().starts_with("`--timeout`: `x` is not"));
}

/// The descriptions of the settings say for which of them zero has a special meaning.
#[test]
fn zero_is_shown_as_the_meaning_that_the_description_gives() {
    for key in Key::ALL {
        let zeros = ["0", "0s", "0B", "0B/s"].map(text_value);
        let shown = zeros.map(|zero| key.format_value(&zero));
        let expected = if key.about().contains("means no limit") {
            Some("no limit")
        } else if key.about().contains("` disables") {
            Some("off")
        } else {
            None
        };
        match expected {
            Some(expected) => assert_eq!(shown, [expected; 4], "{key}"),
            None => assert_eq!(shown, ["0", "0s", "0B", "0B/s"], "{key}"),
        }
    }
    assert_eq!(Key::MaxMemory.format_value(&text_value("1GiB")), "1GiB");
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let mut layer = Layer::default();
    let mut refused = |name: &str| {
        layer
            .set_by_name(name, &text_value("1s"), user_source())
            .expect_err("no such key")
            .to_string()
    };
    assert_eq!(
        refused("kil_grace"),
        "`/u/config.toml` line 2: unknown key `kil_grace`; did you mean `kill_grace`?"
    );
    assert_eq!(
        refused("colour"),
        "`/u/config.toml` line 2: unknown key `colour`; `siding config show` lists all keys"
    );
    assert!(refused("\x1b]0;x").contains("`\\e]0;x`"));
    layer.set_by_name("kill_grace", &text_value("1s"), user_source()).expect("a known key");
}

#[test]
fn a_terminal_is_neither_given_back_between_two_keys_nor_kept_for_hours() {
    let set = |value: &str| {
        let result = Layer::default().set(Key::AttachIdle, &text_value(value), user_source());
        result.map_err(|error| error.to_string())
    };
    for legal in ["1s", "30s", "1h"] {
        assert_eq!(set(legal), Ok(()), "{legal}");
    }
    for refused in ["0s", "999ms", "61m"] {
        let message = set(refused).expect_err("outside the bounds");
        assert!(message.contains("`attach_idle`"), "{message}");
        assert!(message.contains("a duration from `1s` to `1h`"), "{message}");
    }
}

#[cfg(feature = "schema")]
#[test]
fn the_schema_names_every_key_and_its_built_in_value() {
    let schema = file_schema().to_value();
    assert_eq!(schema["additionalProperties"], false);
    for key in Key::ALL {
        let property = &schema["properties"][key.name()];
        assert_eq!(property["description"], key.about());
        let default = serde_json::to_value(Settings::default().value(*key)).expect("JSON");
        assert_eq!(property["default"], default);
    }
    assert_eq!(schema["properties"]["assistant_mode"]["enum"][1], "on");
    assert!(schema["properties"]["locked"]["anyOf"].is_array());
    assert_eq!(schema["properties"].as_object().expect("an object").len(), Key::ALL.len() + 1);
}

fn any_source() -> impl Strategy<Value = SettingSource> {
    prop::sample::select(vec![
        host_source(),
        user_source(),
        project_source(),
        env_source(Key::MaxElapsed),
        call_source(),
    ])
}

fn any_layer() -> impl Strategy<Value = Layer> {
    let key = prop::sample::select(vec![Key::MaxElapsed, Key::MaxElapsedHardCap, Key::KillGrace]);
    (any_source(), prop::collection::vec((key, 1_u32..40_000), 0..4)).prop_map(|(place, values)| {
        let mut layer = Layer::default();
        for (key, seconds) in values {
            layer
                .set(key, &text_value(&format!("{seconds}s")), place.clone())
                .expect("a legal value");
        }
        layer
    })
}

proptest! {
    #[test]
    fn no_layers_exceed_the_cap_or_override_a_lock(
        cap in 1_u64..40_000,
        locked in any::<bool>(),
        layers in prop::collection::vec(any_layer(), 0..6),
    ) {
        let mut admin = layer(&system_source(), &[(Key::MaxElapsedHardCap, &format!("{cap}s"))]);
        if locked {
            admin.lock("kill_grace", system_source()).expect("the system file may lock");
            admin.lock("max_elapsed_hard_cap", system_source()).expect("the system file may lock");
        }
        let settings = Settings::merge(std::iter::once(admin).chain(layers));
        let cap = Duration::from_secs(cap);
        prop_assert!(settings.max_elapsed_hard_cap <= cap);
        prop_assert!(settings.max_elapsed <= settings.max_elapsed_hard_cap);
        if locked {
            prop_assert_eq!(settings.max_elapsed_hard_cap, cap);
            prop_assert_eq!(settings.kill_grace, Settings::default().kill_grace);
        }
    }

    #[test]
    fn displayed_values_can_be_written_to_a_file(layers in prop::collection::vec(any_layer(), 0..6)) {
        let settings = Settings::merge(layers);
        let mut copy = Layer::default();
        for entry in settings.entries() {
            copy.set(entry.key, &entry.value, user_source()).expect("a shown value is legal");
        }
        let again = Settings::merge([copy]);
        for key in Key::ALL {
            prop_assert_eq!(again.value(*key), settings.value(*key));
        }
    }

    #[test]
    fn arbitrary_text_never_panics(value in any::<String>(), name in any::<String>()) {
        let mut layer = Layer::default();
        for key in Key::ALL {
            let _best_effort = layer.set(*key, &text_value(&value), user_source());
        }
        let _best_effort = layer.set_by_name(&name, &text_value(&value), user_source());
    }
}

#[test]
fn every_watched_limit_names_its_setting() {
    for (limit, name) in crate::limits::WATCHED_LIMITS {
        assert!(Key::from_name(name).is_some(), "{limit:?}: no setting `{name}`");
    }
}

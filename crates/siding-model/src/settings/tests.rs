use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::foreign::ForeignReap;
use crate::limits::{Limits, OnLimit};
use crate::net::NetPolicy;
use crate::signal::Signal;
use crate::size::Bytes;
use crate::spec::OnLeaderExit;

fn system() -> Place {
    Place { origin: Origin::System { path: "/etc/siding/config.toml".into() }, line: Some(3) }
}

fn host() -> Place {
    Origin::Host { path: "/h/settings.json".into() }.into()
}

fn user() -> Place {
    Place { origin: Origin::User { path: "/u/config.toml".into() }, line: Some(2) }
}

fn project() -> Place {
    Origin::Project { path: "/p/config.toml".into() }.into()
}

fn variable(key: Key) -> Place {
    Origin::Environment { name: key.variable() }.into()
}

fn call() -> Place {
    Origin::Call { flag: "--timeout".to_owned() }.into()
}

fn text(value: &str) -> RawValue {
    RawValue::Text(value.to_owned())
}

fn layer(place: &Place, values: &[(Key, &str)]) -> Layer {
    let mut layer = Layer::default();
    for (key, value) in values {
        layer.set(*key, &text(value), place.clone()).expect("a legal value");
    }
    layer
}

fn refusal(key: Key, raw: RawValue) -> String {
    let mut layer = Layer::default();
    let error = layer.set(key, &raw, user()).expect_err("an illegal value");
    assert_eq!(layer, Layer::default(), "a refused value leaves nothing behind");
    error.to_string()
}

fn warnings(settings: &Settings) -> Vec<String> {
    settings.warnings().iter().map(Warning::to_string).collect()
}

#[test]
fn the_built_in_values_are_the_documented_ones() {
    let shown: Vec<_> = Settings::default()
        .entries()
        .map(|entry| {
            assert_eq!(*entry.place, Origin::BuiltIn.into());
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
        ]
    );
    assert_eq!(Settings::merge([]), Settings::default());
}

#[test]
fn every_built_in_value_is_legal_and_read_back() {
    let builtin = Settings::default();
    for key in Key::ALL {
        let raw = builtin.value(*key);
        for raw in [raw.clone(), text(&raw.to_string())] {
            let mut layer = Layer::default();
            layer.set(*key, &raw, user()).expect("a legal value");
            assert_eq!(Settings::merge([layer]).value(*key), builtin.value(*key));
        }
        assert_eq!(Key::from_name(key.name()), Some(*key));
        assert!(key.about().ends_with('.') && !key.about().starts_with(' '));
    }
    assert_eq!(Key::OutputKeepTail.variable(), "SIDING_OUTPUT_KEEP_TAIL");
}

#[test]
fn values_of_every_kind_are_read() {
    let mut layer = Layer::default();
    for (key, raw) in [
        (Key::BlockingBudget, text("1h 30m")),
        (Key::KillSignal, RawValue::Integer(2)),
        (Key::AssistantMode, text("off")),
        (Key::BackgroundTasks, RawValue::Boolean(false)),
        (Key::OnLeaderExit, text("reap")),
        (Key::Shell, text("/bin/zsh")),
        (Key::OutputKeepHead, RawValue::Integer(0)),
        (Key::OutputKeepTail, text("1 GiB")),
        (Key::RetentionTasks, RawValue::Integer(5)),
        (Key::MaxMemory, text("4 GiB")),
        (Key::MaxSent, RawValue::Integer(7)),
        (Key::MaxOutputRate, text(" 2MiB/s ")),
        (Key::OnLimit, text("stop")),
    ] {
        layer.set(key, &raw, user()).expect("a legal value");
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
    let limits = Limits {
        memory: 4 << 30,
        sent: 7,
        output_rate: 2 << 20,
        on_limit: OnLimit::Stop,
        ..Limits::default()
    };
    assert_eq!(settings.limits(), limits);
    assert_eq!(settings.origin(Key::Shell), &user().origin);
    assert_eq!(settings.origin(Key::Settle), &Origin::BuiltIn);
}

#[test]
fn a_later_layer_wins_and_is_remembered() {
    let key = Key::KillGrace;
    let order = [system(), host(), user(), project(), variable(key), call()];
    for top in 0..order.len() {
        let layers = order[..=top].iter().enumerate();
        let settings =
            Settings::merge(layers.map(|(n, place)| layer(place, &[(key, &format!("{n}s"))])));
        assert_eq!(settings.kill_grace, Duration::from_secs(top as u64));
        assert_eq!(settings.origin(key), &order[top].origin);
    }
}

#[test]
fn mistakes_name_place_key_value_and_what_is_allowed() {
    for (key, raw, message) in [
        (
            Key::MaxElapsed,
            RawValue::Integer(1800),
            "`/u/config.toml` line 2: `max_elapsed`: `1800` has no unit; write `1800s` for seconds, or another of ms, s, m, h, d",
        ),
        (
            Key::MaxElapsed,
            text("0s"),
            "`/u/config.toml` line 2: `max_elapsed`: `0s` is not possible here; write more than zero",
        ),
        (
            Key::AssistantMode,
            text("yes"),
            "`/u/config.toml` line 2: `assistant_mode`: `yes` is not possible here; write `auto`, `on` or `off`",
        ),
        (
            Key::BackgroundTasks,
            RawValue::Integer(7),
            "`/u/config.toml` line 2: `background_tasks`: `7` is not possible here; write `true` or `false`",
        ),
        (
            Key::RetentionTasks,
            RawValue::Integer(-1),
            "`/u/config.toml` line 2: `retention_tasks`: `-1` is not possible here; write a whole number from 0 to 4294967295",
        ),
        (
            Key::KillGrace,
            RawValue::Other("an array"),
            "`/u/config.toml` line 2: `kill_grace`: `an array` is not possible here; write a duration such as `15s`, `30m` or `1h30m`",
        ),
    ] {
        assert_eq!(refusal(key, raw), message);
    }
    for (key, raw, part) in [
        (Key::KillSignal, text("BOOM"), "`BOOM` is not a signal"),
        (Key::KillSignal, text("STOP"), "lets a process end"),
        (Key::KillSignal, RawValue::Boolean(true), "a signal such as"),
        (Key::OutputKeepTail, text("8M"), "as in `8MiB`"),
        (Key::OutputKeepTail, RawValue::Integer(0), "more than zero"),
        (Key::OutputMaxBytes, RawValue::Integer(-5), "not a size"),
        (Key::OnLeaderExit, RawValue::Boolean(true), "`linger` or `reap`"),
        (Key::Shell, text(" "), "such as `bash`"),
        (Key::Shell, text("ba\0sh"), "ba\\x00sh"),
        (Key::Shell, RawValue::Integer(1), "a text in quotes"),
        (Key::Settle, text("\x1b[2J"), "`\\e[2J` is not a duration"),
    ] {
        let message = refusal(key, raw);
        assert!(message.contains(part), "{message}");
    }
    let mut layer = Layer::default();
    let error = layer.set(Key::Settle, &text("x"), variable(Key::Settle)).expect_err("no duration");
    assert!(error.to_string().starts_with("environment variable `SIDING_SETTLE`: `settle`: `x`"));
    let error = layer.set(Key::Settle, &text("x"), call()).expect_err("no duration");
    assert!(error.to_string().starts_with("`--timeout`: `settle`: "));
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let mut layer = Layer::default();
    let mut refused = |name: &str| {
        layer.set_named(name, &text("1s"), user()).expect_err("no such key").to_string()
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
    layer.set_named("kill_grace", &text("1s"), user()).expect("a known key");
}

#[test]
fn a_locked_key_keeps_its_value() {
    let key = Key::KillGrace;
    let mut locking = layer(&system(), &[(key, "30s")]);
    locking.lock("kill_grace", system()).expect("the system file may lock");
    for place in [host(), user(), project(), variable(key), call()] {
        let settings = Settings::merge([locking.clone(), layer(&place, &[(key, "1s")])]);
        assert_eq!(settings.kill_grace, Duration::from_secs(30));
        assert_eq!(settings.origin(key), &system().origin);
        assert_eq!(
            warnings(&settings),
            [format!(
                "{place}: `kill_grace` stays `30s`: it is locked by the system file `/etc/siding/config.toml`"
            )]
        );
    }
    let settings = Settings::merge([locking, layer(&user(), &[(key, "30s"), (Key::Settle, "1s")])]);
    assert!(warnings(&settings).is_empty(), "to agree is no attempt");
    assert_eq!(settings.settle, Duration::from_secs(1));
    assert!(settings.is_locked(key) && !settings.is_locked(Key::Settle));
    assert_eq!(settings.entries().filter(|entry| entry.locked).count(), 1);
}

#[test]
fn a_key_can_be_locked_at_its_built_in_value() {
    let mut locking = Layer::default();
    locking.lock("shell", system()).expect("the system file may lock");
    let settings = Settings::merge([locking, layer(&project(), &[(Key::Shell, "./evil")])]);
    assert_eq!(settings.shell, "bash");
    assert_eq!(settings.origin(Key::Shell), &Origin::BuiltIn);
}

#[test]
fn only_the_system_file_locks() {
    let mut layer = Layer::default();
    for place in [host(), user(), project(), call()] {
        let error = layer.lock("shell", place.clone()).expect_err("not allowed");
        assert_eq!(error, Invalid::LockNotAllowed { place });
    }
    let error = layer.lock("shel", system()).expect_err("no such key").to_string();
    assert!(error.contains("did you mean `shell`?"), "{error}");
}

#[test]
fn only_the_system_file_raises_the_cap() {
    let cap = Key::MaxElapsedHardCap;
    let settings = Settings::merge([layer(&system(), &[(cap, "8h")])]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(8 * 3600));
    assert!(warnings(&settings).is_empty());
    for place in [host(), user(), project(), variable(cap), call()] {
        let settings = Settings::merge([layer(&place, &[(cap, "8h")])]);
        assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(4 * 3600));
        assert_eq!(settings.origin(cap), &Origin::BuiltIn);
        assert_eq!(
            warnings(&settings),
            [format!(
                "{place}: `max_elapsed_hard_cap` is `8h`, more than the cap of `4h` (built-in), which is used"
            )]
        );
        // Up to what the administrator allows it is no raise.
        let settings =
            Settings::merge([layer(&system(), &[(cap, "9h")]), layer(&place, &[(cap, "8h")])]);
        assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(8 * 3600));
    }
    // What the user lowered, the project cannot raise again.
    let settings =
        Settings::merge([layer(&user(), &[(cap, "1h")]), layer(&project(), &[(cap, "2h")])]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(3600));
}

#[test]
fn a_project_cannot_have_younger_processes_of_others_ended() {
    let (cap, ends) = (Key::MaxElapsedHardCap, Key::ForeignReap);
    let hour = Duration::from_secs(3600);
    assert_eq!(Settings::default().foreign_min_age(), 4 * hour);
    let settings =
        Settings::merge([layer(&user(), &[(cap, "1h")]), layer(&project(), &[(cap, "1m")])]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(60));
    assert_eq!(settings.foreign_min_age(), hour);
    let lower = layer(&variable(cap), &[(cap, "2s")]);
    let settings = Settings::merge([layer(&project(), &[(cap, "1m")]), lower]);
    assert_eq!(settings.foreign_min_age(), Duration::from_secs(2));
    // Nor does it decide that anything is ended.
    let settings = Settings::merge([layer(&project(), &[(ends, "end")])]);
    assert_eq!(settings.foreign_reap_in_force(false), ForeignReap::Report);
    assert_eq!(warnings(&settings).len(), 1);
    let settings = Settings::merge([layer(&user(), &[(ends, "end")])]);
    assert_eq!(settings.foreign_reap_in_force(false), ForeignReap::End);
}

#[test]
fn a_project_only_closes_the_network() {
    let net = Key::Net;
    for (user_net, project_net, wins) in [
        ("host", "none", true),
        ("loopback", "none", true),
        ("ports:443,80", "ports:443", true),
        ("none", "none", true),
        ("none", "host", false),
        ("none", "loopback", false),
        ("ports:443", "ports:443,22", false),
    ] {
        let layers = [layer(&user(), &[(net, user_net)]), layer(&project(), &[(net, project_net)])];
        let settings = Settings::merge(layers);
        let kept = if wins { (project_net, project()) } else { (user_net, user()) };
        assert_eq!(
            settings.value(net),
            text(&kept.0.parse::<NetPolicy>().expect("one").to_string())
        );
        assert_eq!(settings.origin(net), &kept.1.origin, "{user_net} {project_net}");
        let said = warnings(&settings).join("");
        assert_eq!(said.contains("which is not stricter than"), !wins, "{said}");
    }
    // A person's own call is a person's decision; a lock is the administrator's.
    let open = || layer(&call(), &[(net, "host")]);
    let mut admin = layer(&system(), &[(net, "none")]);
    assert!(Settings::merge([admin.clone(), open()]).net.is_host());
    admin.lock("net", system()).expect("the system file may lock");
    assert_eq!(Settings::merge([admin, open()]).net, NetPolicy::None);
    let refused = refusal(net, text("ports:https"));
    assert!(refused.contains("`https` is no port; write numbers from 1 to 65535"), "{refused}");
}

/// A cloned repository neither removes what other projects have nor says what is killed.
#[test]
fn a_project_governs_its_own_tasks_alone() {
    for (key, value) in [
        (Key::RetentionAge, text("1s")),
        (Key::RetentionTasks, RawValue::Integer(0)),
        (Key::RetentionBytes, text("0")),
        (Key::ReapSockets, RawValue::List(vec![text("/tmp/all/*")])),
        (Key::ReapForeign, RawValue::List(vec![])),
        (Key::NotifyWebhook, text("https://example.org/x")),
        (Key::ReportDaily, RawValue::Boolean(true)),
    ] {
        let set_by = |place: &Place| {
            let mut layer = Layer::default();
            layer.set(key, &value, place.clone()).expect("legal");
            Settings::merge([layer])
        };
        let settings = set_by(&project());
        assert_eq!(settings.origin(key), &Origin::BuiltIn, "{key}");
        assert_eq!(settings.value(key), Settings::default().value(key), "{key}");
        let said = warnings(&settings).join("");
        assert!(said.contains(&format!("`{key}` is not used: ")), "{said}");
        assert!(said.ends_with("set it in your own settings file"), "{said}");
        let settings = set_by(&user());
        assert_eq!(settings.origin(key), &user().origin, "{key}");
        assert!(warnings(&settings).is_empty());
    }
}

#[test]
fn nobody_passes_the_cap() {
    let settings = Settings::merge([layer(&call(), &[(Key::MaxElapsed, "5h")])]);
    assert_eq!(settings.max_elapsed, settings.max_elapsed_hard_cap);
    assert_eq!(settings.origin(Key::MaxElapsed), &Origin::BuiltIn);
    assert_eq!(
        warnings(&settings),
        ["`--timeout`: `max_elapsed` is `5h`, more than the cap of `4h` (built-in), which is used"]
    );
    // A cap below the built-in deadline surprises nobody who did not ask for more.
    let settings = Settings::merge([layer(&project(), &[(Key::MaxElapsedHardCap, "1m")])]);
    assert_eq!(settings.max_elapsed, Duration::from_secs(60));
    assert_eq!(settings.origin(Key::MaxElapsed), &project().origin);
    assert!(warnings(&settings).is_empty());
    // The order in which a file names the two does not matter.
    let raised = layer(&system(), &[(Key::MaxElapsed, "5h"), (Key::MaxElapsedHardCap, "6h")]);
    assert_eq!(Settings::merge([raised]).max_elapsed, Duration::from_secs(5 * 3600));
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

fn any_place() -> impl Strategy<Value = Place> {
    prop::sample::select(vec![host(), user(), project(), variable(Key::MaxElapsed), call()])
}

fn any_layer() -> impl Strategy<Value = Layer> {
    let key = prop::sample::select(vec![Key::MaxElapsed, Key::MaxElapsedHardCap, Key::KillGrace]);
    (any_place(), prop::collection::vec((key, 1_u32..40_000), 0..4)).prop_map(|(place, values)| {
        let mut layer = Layer::default();
        for (key, seconds) in values {
            layer.set(key, &text(&format!("{seconds}s")), place.clone()).expect("a legal value");
        }
        layer
    })
}

proptest! {
    #[test]
    fn no_layers_pass_cap_or_lock(
        cap in 1_u64..40_000,
        locked in any::<bool>(),
        layers in prop::collection::vec(any_layer(), 0..6),
    ) {
        let mut admin = layer(&system(), &[(Key::MaxElapsedHardCap, &format!("{cap}s"))]);
        if locked {
            admin.lock("kill_grace", system()).expect("the system file may lock");
            admin.lock("max_elapsed_hard_cap", system()).expect("the system file may lock");
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
    fn what_is_shown_can_be_written_into_a_file(layers in prop::collection::vec(any_layer(), 0..6)) {
        let settings = Settings::merge(layers);
        let mut copy = Layer::default();
        for entry in settings.entries() {
            copy.set(entry.key, &entry.value, user()).expect("a shown value is legal");
        }
        let again = Settings::merge([copy]);
        for key in Key::ALL {
            prop_assert_eq!(again.value(*key), settings.value(*key));
        }
    }

    #[test]
    fn no_text_makes_a_panic(value in any::<String>(), name in any::<String>()) {
        let mut layer = Layer::default();
        for key in Key::ALL {
            let _legal_or_not = layer.set(*key, &text(&value), user());
        }
        let _known_or_not = layer.set_named(&name, &text(&value), user());
    }
}

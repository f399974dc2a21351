//! Restrictions on layers: locked keys, the cap, and the keys that a project must not set. These
//! restrictions protect a user against the settings in a cloned repository.

use super::*;

#[test]
fn a_locked_key_keeps_its_value() {
    let key = Key::KillGrace;
    let mut locking = layer(&system_source(), &[(key, "30s")]);
    locking.lock("kill_grace", system_source()).expect("the system file may lock");
    for place in [host_source(), user_source(), project_source(), env_source(key), call_source()] {
        let settings = Settings::merge([locking.clone(), layer(&place, &[(key, "1s")])]);
        assert_eq!(settings.kill_grace, Duration::from_secs(30));
        assert_eq!(settings.origin(key), &system_source().origin);
        assert_eq!(
            warning_texts(&settings),
            [format!(
                "{place}: `kill_grace` stays `30s`: it is locked by the system file `/etc/siding/config.toml`"
            )]
        );
    }
    let settings =
        Settings::merge([locking, layer(&user_source(), &[(key, "30s"), (Key::Settle, "1s")])]);
    assert!(warning_texts(&settings).is_empty(), "a value equal to the locked one is no conflict");
    assert_eq!(settings.settle, Duration::from_secs(1));
    assert!(settings.is_locked(key) && !settings.is_locked(Key::Settle));
    assert_eq!(settings.entries().filter(|entry| entry.locked).count(), 1);
}

#[test]
fn a_key_can_be_locked_at_its_built_in_value() {
    let mut locking = Layer::default();
    locking.lock("shell", system_source()).expect("the system file may lock");
    let settings = Settings::merge([locking, layer(&project_source(), &[(Key::Shell, "./evil")])]);
    assert_eq!(settings.shell, "bash");
    assert_eq!(settings.origin(Key::Shell), &Origin::BuiltIn);
}

#[test]
fn only_the_system_file_can_lock_keys() {
    let mut layer = Layer::default();
    for place in [host_source(), user_source(), project_source(), call_source()] {
        let error = layer.lock("shell", place.clone()).expect_err("not allowed");
        assert_eq!(error, InvalidSetting::LockNotAllowed { place });
    }
    let error = layer.lock("shel", system_source()).expect_err("no such key").to_string();
    assert!(error.contains("did you mean `shell`?"), "{error}");
}

#[test]
fn only_the_system_file_can_raise_the_cap() {
    let cap = Key::MaxElapsedHardCap;
    let settings = Settings::merge([layer(&system_source(), &[(cap, "8h")])]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(8 * 3600));
    assert!(warning_texts(&settings).is_empty());
    for place in [host_source(), user_source(), project_source(), env_source(cap), call_source()] {
        let settings = Settings::merge([layer(&place, &[(cap, "8h")])]);
        assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(4 * 3600));
        assert_eq!(settings.origin(cap), &Origin::BuiltIn);
        let is_flag = matches!(place.origin, Origin::Call { .. });
        let setting = if is_flag { "" } else { " `max_elapsed_hard_cap`:" };
        assert_eq!(
            warning_texts(&settings),
            [format!(
                "{place}:{setting} `8h` is more than the cap of `4h`, which `max_elapsed_hard_cap` sets \
                 (built-in; only the system file `/etc/siding/config.toml` can raise it); the cap applies \
                 instead"
            )]
        );
        // A cap above the built-in cap is allowed up to the administrator's cap.
        let settings = Settings::merge([
            layer(&system_source(), &[(cap, "9h")]),
            layer(&place, &[(cap, "8h")]),
        ]);
        assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(8 * 3600));
    }
    // A project cannot raise a cap that the user lowered.
    let settings = Settings::merge([
        layer(&user_source(), &[(cap, "1h")]),
        layer(&project_source(), &[(cap, "2h")]),
    ]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(3600));
}

#[test]
fn a_project_cannot_lower_the_age_for_ending_unowned_processes() {
    let (cap, ends) = (Key::MaxElapsedHardCap, Key::ForeignReap);
    let hour = Duration::from_secs(3600);
    assert_eq!(Settings::default().unowned_min_age(), 4 * hour);
    let settings = Settings::merge([
        layer(&user_source(), &[(cap, "1h")]),
        layer(&project_source(), &[(cap, "1m")]),
    ]);
    assert_eq!(settings.max_elapsed_hard_cap, Duration::from_secs(60));
    assert_eq!(settings.unowned_min_age(), hour);
    let lower = layer(&env_source(cap), &[(cap, "2s")]);
    let settings = Settings::merge([layer(&project_source(), &[(cap, "1m")]), lower]);
    assert_eq!(settings.unowned_min_age(), Duration::from_secs(2));
    // A project cannot enable the termination of unowned processes either.
    let settings = Settings::merge([layer(&project_source(), &[(ends, "end")])]);
    assert_eq!(settings.effective_unowned_reap(false), UnownedReapMode::Report);
    assert_eq!(warning_texts(&settings).len(), 1);
    let settings = Settings::merge([layer(&user_source(), &[(ends, "end")])]);
    assert_eq!(settings.effective_unowned_reap(false), UnownedReapMode::End);
}

#[test]
fn a_project_can_only_restrict_the_network() {
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
        let layers = [
            layer(&user_source(), &[(net, user_net)]),
            layer(&project_source(), &[(net, project_net)]),
        ];
        let settings = Settings::merge(layers);
        let kept = if wins { (project_net, project_source()) } else { (user_net, user_source()) };
        assert_eq!(
            settings.value(net),
            text_value(&kept.0.parse::<NetPolicy>().expect("a policy").to_string())
        );
        assert_eq!(settings.origin(net), &kept.1.origin, "{user_net} {project_net}");
        let warning_text = warning_texts(&settings).join("");
        assert_eq!(warning_text.contains("which is not stricter than"), !wins, "{warning_text}");
    }
    // A user's own call may loosen the policy, unless the administrator locked it.
    let open = || layer(&call_source(), &[(net, "host")]);
    let mut admin = layer(&system_source(), &[(net, "none")]);
    assert!(Settings::merge([admin.clone(), open()]).net.is_host());
    admin.lock("net", system_source()).expect("the system file may lock");
    assert_eq!(Settings::merge([admin, open()]).net, NetPolicy::None);
    let refused = set_error(net, text_value("ports:https"));
    assert!(refused.contains("`https` is not a port; write numbers from 1 to 65535"), "{refused}");
}

/// Returns a valid value for a key, different from the built-in value.
fn unusual_value(key: Key) -> RawValue {
    let texts = ["1s", "0", "off", "https://example.org/x", "x"].map(text_value);
    let lists = [RawValue::List(Vec::new()), RawValue::List(vec![text_value("/tmp/all/*")])];
    let flags = [RawValue::Boolean(true), RawValue::Boolean(false)];
    let host = RawValue::Table([("host".to_owned(), text_value("x"))].into());
    let others = [RawValue::Integer(0), RawValue::Table([("x".to_owned(), host)].into())];
    let mut values = texts.into_iter().chain(lists).chain(flags).chain(others);
    let changes = |value: &RawValue| {
        let mut layer = Layer::default();
        layer.set(key, value, user_source()).is_ok()
            && Settings::merge([layer]).value(key) != Settings::default().value(key)
    };
    values.find(changes).unwrap_or_else(|| panic!("add a value of `{key}` to the lists"))
}

/// A cloned repository must neither remove data of other projects nor select processes to kill.
#[test]
fn a_project_cannot_set_user_wide_keys() {
    for key in Key::ALL.iter().copied().filter(|key| key.scope() == KeyScope::UserOnly) {
        let value = unusual_value(key);
        let set_by = |place: &SettingSource| {
            let mut layer = Layer::default();
            layer.set(key, &value, place.clone()).expect("a valid value");
            Settings::merge([layer])
        };
        let settings = set_by(&project_source());
        assert_eq!(settings.origin(key), &Origin::BuiltIn, "{key}");
        assert_eq!(settings.value(key), Settings::default().value(key), "{key}");
        let warning_text = warning_texts(&settings).join("");
        assert!(warning_text.contains(&format!("`{key}` is not used: ")), "{warning_text}");
        assert!(warning_text.ends_with("set it in your own settings file"), "{warning_text}");
        let settings = set_by(&user_source());
        assert_eq!(settings.origin(key), &user_source().origin, "{key}");
        assert!(warning_texts(&settings).is_empty());
    }
}

#[test]
fn max_elapsed_is_clamped_to_the_cap() {
    let settings = Settings::merge([layer(&call_source(), &[(Key::MaxElapsed, "5h")])]);
    assert_eq!(settings.max_elapsed, settings.max_elapsed_hard_cap);
    assert_eq!(settings.origin(Key::MaxElapsed), &Origin::BuiltIn);
    assert_eq!(
        warning_texts(&settings),
        [
            "`--timeout`: `5h` is more than the cap of `4h`, which `max_elapsed_hard_cap` sets (built-in; \
             only the system file `/etc/siding/config.toml` can raise it); the cap applies instead"
        ]
    );
    // A cap below the built-in deadline causes no warning if no layer sets the deadline.
    let settings = Settings::merge([layer(&project_source(), &[(Key::MaxElapsedHardCap, "1m")])]);
    assert_eq!(settings.max_elapsed, Duration::from_secs(60));
    assert_eq!(settings.origin(Key::MaxElapsed), &project_source().origin);
    assert!(warning_texts(&settings).is_empty());
    // The order of the two keys in a file does not matter.
    let raised =
        layer(&system_source(), &[(Key::MaxElapsed, "5h"), (Key::MaxElapsedHardCap, "6h")]);
    assert_eq!(Settings::merge([raised]).max_elapsed, Duration::from_secs(5 * 3600));
}

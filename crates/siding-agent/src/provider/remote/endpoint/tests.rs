//! Addresses and keys of the environment.

use siding_http::client::is_loopback_url;

use super::*;

fn find(dialect: Dialect, set: &[(&str, &str)]) -> Result<Endpoint, String> {
    let variable = |name: &str| {
        set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let model = match dialect {
        Dialect::Anthropic => Model::Anthropic("m".to_owned()),
        Dialect::OpenAi => Model::OpenAi("m".to_owned()),
    };
    Endpoint::find(dialect, &model, &variable).map_err(|error| error.to_string())
}

fn header(endpoint: &Endpoint, name: &str) -> Option<String> {
    endpoint.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

#[test]
fn a_base_may_end_as_it_likes() {
    for (dialect, given, url) in [
        (Dialect::Anthropic, None, "https://api.anthropic.com/v1/messages"),
        (Dialect::Anthropic, Some("http://h:1"), "http://h:1/v1/messages"),
        (Dialect::Anthropic, Some("http://h:1/"), "http://h:1/v1/messages"),
        (Dialect::Anthropic, Some("http://h/a/v1/"), "http://h/a/v1/messages"),
        (Dialect::Anthropic, Some("http://h/a"), "http://h/a/v1/messages"),
        (Dialect::OpenAi, None, "https://api.openai.com/v1/chat/completions"),
        (Dialect::OpenAi, Some("http://h/v1"), "http://h/v1/chat/completions"),
        (Dialect::OpenAi, Some("http://h/v1/"), "http://h/v1/chat/completions"),
        (Dialect::OpenAi, Some("http://h"), "http://h/chat/completions"),
        // A version as Azure has it stays.
        (Dialect::OpenAi, Some("http://h/d?v=2"), "http://h/d/chat/completions?v=2"),
    ] {
        let built = address(dialect, given).expect("it is one");
        assert_eq!(built.as_str(), url, "{given:?}");
    }
}

#[test]
fn a_wrong_base_is_named_with_a_right_one() {
    for given in ["localhost:8080", "api.example.com/v1", "ftp://h", "http://", "http://h:99999"] {
        let set = [("OPENAI_BASE_URL", given), ("OPENAI_API_KEY", "k")];
        let error = find(Dialect::OpenAi, &set).err().expect("it is none");
        assert!(error.starts_with("OPENAI_BASE_URL is no address"), "{error}");
        assert!(error.contains(given) && error.ends_with("https://api.openai.com/v1"), "{error}");
    }
}

#[test]
fn a_missing_key_is_told_by_the_name_of_its_variable() {
    let error = find(Dialect::Anthropic, &[("ANTHROPIC_API_KEY", " ")]).err();
    let told = "anthropic:m needs a key: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN)";
    assert_eq!(error.as_deref(), Some(told));
    let error = find(Dialect::OpenAi, &[]).err();
    assert_eq!(error.as_deref(), Some("openai:m needs a key: set OPENAI_API_KEY"));
    let bad = find(Dialect::OpenAi, &[("OPENAI_API_KEY", "a\nb")]).err().expect("it is none");
    assert!(bad.starts_with("OPENAI_API_KEY holds") && !bad.contains('\n'), "{bad}");
}

#[test]
fn a_server_of_ones_own_may_need_no_key() {
    let own = find(Dialect::OpenAi, &[("OPENAI_BASE_URL", "http://localhost:8080/v1")]);
    let own = own.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((header(&own, "authorization"), is_loopback_url(own.url())), (None, true));
}

#[test]
fn each_key_goes_where_its_owner_expects_it() {
    let both = [("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_AUTH_TOKEN", "t")];
    let token_alone = (None, Some("Bearer t"));
    for (set, (key, token)) in
        [(&both[..1], (Some("k"), None)), (&both[1..], token_alone), (&both[..], token_alone)]
    {
        let endpoint = find(Dialect::Anthropic, set).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(header(&endpoint, "x-api-key").as_deref(), key);
        assert_eq!(header(&endpoint, "authorization").as_deref(), token);
        assert_eq!(header(&endpoint, "anthropic-version").as_deref(), Some(ANTHROPIC_VERSION));
    }
}

#[test]
fn a_password_is_never_shown() {
    let set = [("OPENAI_BASE_URL", "https://me:secret@h/v1?key=secret"), ("OPENAI_API_KEY", "k")];
    let endpoint = find(Dialect::OpenAi, &set).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(endpoint.shown(), "https://h/v1/chat/completions");
}

#[test]
fn this_machine_is_known_by_its_names() {
    for (url, expected) in [
        ("http://127.0.0.1:1", true),
        ("http://127.8.9.1:1", true),
        ("http://[::1]:1", true),
        ("http://localhost", true),
        ("http://localhost.example.com", false),
        ("http://192.0.2.1", false),
    ] {
        let endpoint = find(Dialect::OpenAi, &[("OPENAI_BASE_URL", url)]);
        assert_eq!(endpoint.map(|one| is_loopback_url(one.url())), Ok(expected), "{url}");
    }
}

//! URLs and keys from the environment: which forms are accepted, and that messages show no secret.

use siding_http::client::is_loopback_url;

use super::*;

fn endpoint_from(dialect: ApiDialect, set: &[(&str, &str)]) -> Result<Endpoint, String> {
    let variable = |name: &str| {
        set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let model = match dialect {
        ApiDialect::Anthropic => Model::Anthropic("m".to_owned()),
        ApiDialect::OpenAi => Model::OpenAi("m".to_owned()),
    };
    Endpoint::from_environment(dialect, &model, &variable).map_err(|error| error.to_string())
}

fn header(endpoint: &Endpoint, name: &str) -> Option<String> {
    endpoint.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
}

#[test]
fn any_form_of_base_url_gives_the_request_url() {
    for (dialect, given, url) in [
        (ApiDialect::Anthropic, None, "https://api.anthropic.com/v1/messages"),
        (ApiDialect::Anthropic, Some("http://h:1"), "http://h:1/v1/messages"),
        (ApiDialect::Anthropic, Some("http://h:1/"), "http://h:1/v1/messages"),
        (ApiDialect::Anthropic, Some("http://h/a/v1/"), "http://h/a/v1/messages"),
        (ApiDialect::Anthropic, Some("http://h/a"), "http://h/a/v1/messages"),
        (ApiDialect::OpenAi, None, "https://api.openai.com/v1/chat/completions"),
        (ApiDialect::OpenAi, Some("http://h/v1"), "http://h/v1/chat/completions"),
        (ApiDialect::OpenAi, Some("http://h/v1/"), "http://h/v1/chat/completions"),
        (ApiDialect::OpenAi, Some("http://h"), "http://h/chat/completions"),
        // A version in the query, as Azure uses it, is kept.
        (ApiDialect::OpenAi, Some("http://h/d?v=2"), "http://h/d/chat/completions?v=2"),
    ] {
        let built = request_url(dialect, given).expect("valid URL");
        assert_eq!(built.as_str(), url, "{given:?}");
    }
}

#[test]
fn an_invalid_base_url_is_reported_with_an_example() {
    for given in ["localhost:8080", "api.example.com/v1", "ftp://h", "http://", "http://h:99999"] {
        let set = [("OPENAI_BASE_URL", given), ("OPENAI_API_KEY", "k")];
        let error = endpoint_from(ApiDialect::OpenAi, &set).err().expect("invalid configuration");
        assert!(error.starts_with("OPENAI_BASE_URL is not the URL"), "{error}");
        assert!(error.contains(given) && error.ends_with("https://api.openai.com/v1"), "{error}");
    }
}

#[test]
fn a_missing_key_error_names_the_variables() {
    let error = endpoint_from(ApiDialect::Anthropic, &[("ANTHROPIC_API_KEY", " ")]).err();
    let expected = "anthropic:m needs a key: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN)";
    assert_eq!(error.as_deref(), Some(expected));
    let error = endpoint_from(ApiDialect::OpenAi, &[]).err();
    assert_eq!(error.as_deref(), Some("openai:m needs a key: set OPENAI_API_KEY"));
    let bad = endpoint_from(ApiDialect::OpenAi, &[("OPENAI_API_KEY", "a\nb")])
        .err()
        .expect("invalid configuration");
    assert!(bad.starts_with("OPENAI_API_KEY does not hold") && !bad.contains('\n'), "{bad}");
}

#[test]
fn a_local_server_may_need_no_key() {
    let own = endpoint_from(ApiDialect::OpenAi, &[("OPENAI_BASE_URL", "http://localhost:8080/v1")]);
    let own = own.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((header(&own, "authorization"), is_loopback_url(own.url())), (None, true));
}

#[test]
fn each_key_is_sent_in_the_header_of_its_variable() {
    let both = [("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_AUTH_TOKEN", "t")];
    let token_alone = (None, Some("Bearer t"));
    for (set, (key, token)) in
        [(&both[..1], (Some("k"), None)), (&both[1..], token_alone), (&both[..], token_alone)]
    {
        let endpoint =
            endpoint_from(ApiDialect::Anthropic, set).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(header(&endpoint, "x-api-key").as_deref(), key);
        assert_eq!(header(&endpoint, "authorization").as_deref(), token);
        assert_eq!(header(&endpoint, "anthropic-version").as_deref(), Some(ANTHROPIC_VERSION));
    }
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    let set = [("OPENAI_BASE_URL", "https://me:secret@h/v1?key=secret"), ("OPENAI_API_KEY", "k")];
    let endpoint =
        endpoint_from(ApiDialect::OpenAi, &set).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(endpoint.display_url(), "https://h/v1/chat/completions");
}

#[test]
fn loopback_addresses_are_recognized_as_local() {
    for (url, expected) in [
        ("http://127.0.0.1:1", true),
        ("http://127.8.9.1:1", true),
        ("http://[::1]:1", true),
        ("http://localhost", true),
        ("http://localhost.example.com", false),
        ("http://192.0.2.1", false),
    ] {
        let endpoint = endpoint_from(ApiDialect::OpenAi, &[("OPENAI_BASE_URL", url)]);
        assert_eq!(endpoint.map(|one| is_loopback_url(one.url())), Ok(expected), "{url}");
    }
}

//! The URL and the key of a model's server.

#[cfg(test)]
mod tests;

use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint as Base};
use genai::{Headers, ModelIden, ServiceTarget};
use reqwest::Url;
use siding_model::text::one_line;

use super::error::RequestError;
use crate::provider::model::Model;
use crate::provider::open::OpenError;
use crate::provider::retry::FailureKind;

/// The version of the Messages API. <https://docs.anthropic.com/en/api/versioning>
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Maximum columns of a URL in a message.
const URL_COLUMNS: usize = 200;

/// The API that a model's server implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum ApiDialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's chat completions.
    OpenAi,
}

impl ApiDialect {
    /// Returns the provider's name, the part of a model's name before the colon.
    pub(super) const fn provider_name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// Returns the library's name for the API.
    pub(super) const fn adapter_kind(self) -> AdapterKind {
        match self {
            Self::Anthropic => AdapterKind::Anthropic,
            Self::OpenAi => AdapterKind::OpenAI,
        }
    }

    const fn url_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::OpenAi => "OPENAI_BASE_URL",
        }
    }

    /// Returns the default base URL. As in the vendors' own clients, OpenAI's includes the version
    /// of the API and Anthropic's does not.
    const fn default_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// Returns the environment variables that may hold a key, in order of precedence.
    const fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Anthropic => &[AUTH_TOKEN_VARIABLE, "ANTHROPIC_API_KEY"],
            Self::OpenAi => &["OPENAI_API_KEY"],
        }
    }

    /// Returns the names of the key variables as error messages list them.
    const fn key_variables_text(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN)",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }
}

/// The environment variable for the key of a gateway. The key is sent as a bearer token.
const AUTH_TOKEN_VARIABLE: &str = "ANTHROPIC_AUTH_TOKEN";

/// A server with its URL and credentials.
pub(in crate::provider) struct Endpoint {
    dialect: ApiDialect,
    /// The complete URL of requests, with the path of the API.
    url: Url,
    /// `url` without credentials, safe to print.
    display_url: String,
    /// Whether the base URL was set in the environment.
    is_from_environment: bool,
    headers: Vec<(&'static str, String)>,
    /// The environment variable that holds the key; `None` if no key is sent.
    key_variable: Option<&'static str>,
}

impl Endpoint {
    /// Determines the URL and the key from the environment.
    ///
    /// No key is required for a chat completions server at an explicit URL, because local servers
    /// often need none.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the missing or invalid variable.
    pub(in crate::provider) fn from_environment(
        dialect: ApiDialect,
        model: &Model,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, OpenError> {
        let set = |name: &str| {
            variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let given = set(dialect.url_variable());
        let url = request_url(dialect, given.as_deref())?;
        let key = dialect.key_variables().iter().find_map(|name| Some((*name, set(name)?)));
        let may_lack = dialect == ApiDialect::OpenAi && given.is_some();
        let mut headers = Vec::new();
        match &key {
            Some((name, key)) => {
                if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                    return Err(OpenError::BadKey { variable: name });
                }
                headers.push(if dialect == ApiDialect::Anthropic && *name != AUTH_TOKEN_VARIABLE {
                    ("x-api-key", key.clone())
                } else {
                    ("authorization", format!("Bearer {key}"))
                });
            }
            None if may_lack => {}
            None => {
                return Err(OpenError::MissingKey {
                    model: one_line(&model.to_string(), URL_COLUMNS),
                    variables: dialect.key_variables_text(),
                });
            }
        }
        if dialect == ApiDialect::Anthropic {
            headers.push(("anthropic-version", ANTHROPIC_VERSION.to_owned()));
        }
        let key = key.map(|(name, _)| name);
        Ok(Self {
            dialect,
            display_url: redacted_url(&url),
            url,
            is_from_environment: given.is_some(),
            headers,
            key_variable: key,
        })
    }

    /// Returns the API that the server implements.
    pub(super) const fn dialect(&self) -> ApiDialect {
        self.dialect
    }

    /// Returns the URL of requests without credentials, safe to print.
    pub(super) fn display_url(&self) -> &str {
        &self.display_url
    }

    /// Returns the complete URL of requests, which may contain credentials.
    pub(super) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the library's target for requests to the model `name`. The target has the complete
    /// URL and all headers, so that the library adds nothing to them.
    pub(super) fn target(&self, name: &str) -> ServiceTarget {
        let headers: Vec<(String, String)> =
            self.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        ServiceTarget {
            endpoint: Base::from_owned(self.url.as_str()),
            auth: AuthData::RequestOverride {
                url: self.url.to_string(),
                headers: Headers::from(headers),
            },
            model: ModelIden::new(self.dialect.adapter_kind(), name.to_owned()),
        }
    }

    /// Returns an error of this server as text, with the URL, the cause and in most cases a remedy.
    pub(super) fn explain(&self, error: &RequestError) -> String {
        let (url, why) = (&self.display_url, &error.message);
        let keys = self.dialect.key_variables_text();
        let address = if self.is_from_environment {
            format!("is {} right?", self.dialect.url_variable())
        } else {
            format!("{} may name another server", self.dialect.url_variable())
        };
        match error.kind {
            FailureKind::Status(401 | 403) => match self.key_variable {
                Some(key) => format!("{url} refuses the key in {key} ({why}); set a valid one"),
                None => format!("{url} requires a key ({why}); set {keys}"),
            },
            FailureKind::Status(404) => {
                format!("{url} does not know this model ({why}); is its name right? {address}")
            }
            FailureKind::Status(413) => format!("the conversation is too long for {url} ({why})"),
            FailureKind::Status(300..=399) => {
                format!("{url} redirects ({why}), which is not followed; {address}")
            }
            FailureKind::Status(_) => format!("{url} returned an error ({why})"),
            FailureKind::Unreachable => {
                format!("{url} cannot be reached ({why}); is there a network? {address}")
            }
            FailureKind::TimedOut | FailureKind::Incomplete => {
                format!("no complete answer from {url} ({why})")
            }
            FailureKind::Permanent => format!("the request to {url} failed ({why}); {address}"),
        }
    }
}

/// Returns the base URL with the path of the API. Without `value`, the default server is used.
fn request_url(dialect: ApiDialect, value: Option<&str>) -> Result<Url, OpenError> {
    let wrong = |why: String| OpenError::BadUrl {
        variable: dialect.url_variable(),
        given: one_line(value.unwrap_or_default(), URL_COLUMNS),
        why: format!("{why}; a valid one is {}", dialect.default_url()),
    };
    let mut url = Url::parse(value.unwrap_or(dialect.default_url()))
        .map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it starts with neither `https://` nor `http://`".to_owned()));
    }
    url.set_fragment(None);
    let has_version =
        url.path_segments().and_then(|mut all| all.rfind(|one| !one.is_empty())) == Some("v1");
    let rest: &[&str] = match dialect {
        ApiDialect::Anthropic if has_version => &["messages"],
        ApiDialect::Anthropic => &["v1", "messages"],
        ApiDialect::OpenAi => &["chat", "completions"],
    };
    url.path_segments_mut()
        .map_err(|()| wrong("it has no path".to_owned()))?
        .pop_if_empty()
        .extend(rest);
    Ok(url)
}

/// Returns the URL without user name, password and query.
fn redacted_url(url: &Url) -> String {
    let mut url = url.clone();
    let _best_effort = url.set_username("");
    let _best_effort = url.set_password(None);
    url.set_query(None);
    one_line(url.as_str(), URL_COLUMNS)
}

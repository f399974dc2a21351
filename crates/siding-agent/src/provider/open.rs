//! Opens a model by its name: reads the script, or configures the HTTP client.

use super::Provider;
use super::model::Model;
use super::remote::{ApiDialect, Endpoint, RemoteProvider, ResponseTimeouts};
use super::retry::RetryPolicy;
use super::script::{ScriptError, ScriptedProvider};

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No API key is set.
    #[error("{model} needs a key: set {variables}")]
    MissingKey {
        /// The model's name, including its provider.
        model: String,
        /// The environment variables that may hold a key.
        variables: &'static str,
    },
    /// The value of an environment variable cannot be a key.
    #[error("{variable} does not hold a valid key: it has characters other than visible ASCII")]
    BadKey {
        /// The variable's name. Its value is not shown, because it may be a secret.
        variable: &'static str,
    },
    /// The value of an environment variable is not a usable URL.
    #[error("{variable} is not the URL of a server: `{given}`: {why}")]
    BadUrl {
        /// The variable's name.
        variable: &'static str,
        /// The value, with control characters escaped.
        given: String,
        /// Why the value is not usable, and a valid example.
        why: String,
    },
    /// The machine has no root certificates.
    #[error(
        "this machine has no root certificates to verify {url} with: install the package \
         `ca-certificates`, or set SSL_CERT_FILE"
    )]
    NoCertificates {
        /// URL of the server, whose certificate cannot be verified.
        url: String,
    },
    /// The HTTP client could not be created.
    #[error("could not start the HTTP client: {why}")]
    Client {
        /// The error of the HTTP library.
        why: String,
    },
    /// The script cannot be read, or is invalid.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// Opens a model: reads the script, or determines the key and the URL. Sends no request.
///
/// `variable` looks up environment variables: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`,
/// `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
///
/// # Errors
///
/// [`OpenError`] if the script cannot be used, a key or a URL is missing or invalid, or the HTTP
/// client cannot be created.
pub fn open(
    model: &Model,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Box<dyn Provider>, OpenError> {
    let (dialect, name) = match model {
        Model::Script(path) => {
            return Ok(Box::new(ScriptedProvider::read(path, RetryPolicy::default())?));
        }
        Model::Anthropic(name) => (ApiDialect::Anthropic, name),
        Model::OpenAi(name) => (ApiDialect::OpenAi, name),
    };
    let endpoint = Endpoint::from_environment(dialect, model, variable)?;
    Ok(Box::new(RemoteProvider::open(
        endpoint,
        name,
        RetryPolicy::default(),
        ResponseTimeouts::default(),
    )?))
}

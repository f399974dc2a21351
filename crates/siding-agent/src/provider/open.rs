//! From a model's name to whoever answers for it.

use super::Provider;
use super::model::Model;
use super::remote::{ApiDialect, Endpoint, RemoteProvider, ResponseTimeouts};
use super::retry::RetryPolicy;
use super::script::{ScriptError, ScriptedProvider};

/// Why a model cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no key.
    #[error("{model} needs a key: set {variables}")]
    MissingKey {
        /// The model.
        model: String,
        /// Which variables may hold one.
        variables: &'static str,
    },
    /// A variable holds what is no key.
    #[error("{variable} holds what cannot be a key: it has characters other than visible ASCII")]
    BadKey {
        /// The variable.
        variable: &'static str,
    },
    /// A variable holds what is no address.
    #[error("{variable} is no address of a server: `{given}`: {why}")]
    BadUrl {
        /// The variable.
        variable: &'static str,
        /// What it holds, safe to print.
        given: String,
        /// What is wrong with it, and what is right.
        why: String,
    },
    /// Nobody could be believed.
    #[error(
        "this machine has no certificates to know {url} by: install the package \
         `ca-certificates`, or set SSL_CERT_FILE"
    )]
    NoCertificates {
        /// Who was to be asked.
        url: String,
    },
    /// The HTTP client did not start.
    #[error("could not start the HTTP client: {why}")]
    Client {
        /// Its words.
        why: String,
    },
    /// The file of answers is not right.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// Opens a model: reads the script, or finds key and address. Asks nobody yet.
///
/// `variable` looks up the environment: `ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`,
/// `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`.
///
/// # Errors
///
/// [`OpenError`] says what is missing or wrong, and where.
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

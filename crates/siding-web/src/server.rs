//! The server: starts, checks each request, and passes it to its handler.

use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use siding_core::store::StateDir;
use siding_http::{
    AccessPolicy, HttpServer, ResponseBody, ServerError, ServerKind, ServerOptions, TokenLocation,
};
use siding_live::{LiveError, LiveOptions};
use siding_model::settings::Settings;

use crate::access::{self, Credential, Refusal};
use crate::context::WebContext;
use crate::feed::Feed;
use crate::openapi::SchemaSource;
use crate::output_feed::OutputFeeds;
use crate::query::Query;
use crate::route::{METRICS_PATH, Route, RouteError, StreamRoute};
use crate::sign_in::{SIGN_IN_PATH, SignIn};
use crate::typing;
use crate::typing_pages::TypingPages;
use crate::{act, api, assets, event_stream, page, response};

/// The environment variable that may hold the token for programs.
pub const TOKEN_VARIABLE: &str = "SIDING_WEB_TOKEN";
const TOKEN_KIND: ServerKind =
    ServerKind { token_file_prefix: "web", token_variable: TOKEN_VARIABLE };

/// Options of the web server.
#[derive(Debug)]
pub struct WebOptions {
    /// The address to listen on.
    pub address: SocketAddr,
    /// Whether the address may be reachable from other machines.
    pub allow_remote: bool,
    /// Host names, in addition to the loopback names, under which browsers may reach the server.
    pub allowed_hosts: Vec<String>,
    /// Whether requests may change tasks.
    pub control: bool,
    /// Whether a person starts the server and is the only reader of its messages, which contain
    /// sign-in links. The person then types in terminals through signed-in browsers.
    pub is_person: bool,
    /// Whether every program of this user may read the metrics, without the token. Only for a
    /// server on a loopback address, where the kernel reports the user of each client.
    pub open_metrics: bool,
    /// The settings in effect.
    pub settings: Settings,
    /// The program that becomes a shim when a task has to be repaired before an act.
    pub program: &'static CStr,
    /// The schemas of siding's JSON output.
    pub schemas: SchemaSource,
}

/// The reason why the server failed.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The HTTP server could not start.
    #[error(transparent)]
    Http(#[from] ServerError),
    /// The state directory could not be followed.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed, as an infinitive.
        doing: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The checks and handlers of a running server.
struct WebServer {
    context: Arc<WebContext>,
    policy: Arc<AccessPolicy>,
    sign_in: SignIn,
    open_metrics: bool,
    /// The beginning of a link to this server, such as `http://127.0.0.1:7000`.
    origin: String,
    tell: MessageHandler,
}

/// A message of the server to the user. Only these messages contain a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebMessage<'m> {
    /// The server listens.
    Started {
        /// A link that signs a browser in, once. A person who uses it can type on the page.
        link: &'m str,
        /// A link for a program that starts a browser. Other programs can read the arguments of
        /// that program, so a browser with this link cannot type as a person.
        browser_link: &'m str,
        /// The place where programs find the token; `None` if there is no token for programs.
        token: Option<TokenLocation<'m>>,
    },
    /// A browser has used the last link.
    SignedIn {
        /// The next link, with which another browser can sign in.
        link: &'m str,
    },
}

/// A receiver of messages for the user.
type MessageHandler = Box<dyn Fn(WebMessage<'_>) + Send + Sync>;

/// Serves until SIGTERM or SIGINT. `tell` receives messages for the user.
///
/// # Errors
///
/// [`WebError`] when the server cannot start.
pub fn serve(
    root: StateDir,
    options: WebOptions,
    tell: impl Fn(WebMessage<'_>) + Send + Sync + 'static,
) -> Result<(), WebError> {
    let io = |doing| move |source| WebError::Io { doing, source };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(io("start"))?;
    let link_hosts = options.allowed_hosts.clone();
    let result = runtime.block_on(async {
        let http = HttpServer::bind(&ServerOptions {
            kind: TOKEN_KIND,
            address: options.address,
            allow_remote: options.allow_remote,
            allowed_hosts: options.allowed_hosts,
        })
        .await?;
        let live_options = LiveOptions {
            deadline_notice: options.settings.deadline_notice,
            ..LiveOptions::default()
        };
        let copy = StateDir::open(root.path()).map_err(LiveError::from)?;
        let sign_in = SignIn::new(http.address().port());
        let open_metrics = options.open_metrics && http.address().ip().is_loopback();
        let origin = link_origin(http.address(), &link_hosts);
        let create_link = |grants_page_key| {
            sign_in.create_link(&origin, grants_page_key).map_err(io("make a sign-in link"))
        };
        let (link, browser_link) = (create_link(options.is_person)?, create_link(false)?);
        let context = WebContext {
            feed: Feed::start(copy, live_options)?,
            outputs: OutputFeeds::default(),
            root,
            control: options.control,
            is_person: options.is_person,
            address: http.address(),
            typing: TypingPages::default(),
            settings: options.settings,
            program: options.program,
            schemas: options.schemas,
        };
        let server = Arc::new(WebServer {
            context: Arc::new(context),
            policy: http.policy(),
            sign_in,
            open_metrics,
            origin,
            tell: Box::new(tell),
        });
        let (link, browser_link) = (link.as_str(), browser_link.as_str());
        let token = http.token_location();
        (server.tell)(WebMessage::Started { link, browser_link, token });
        Ok(http.serve(move |request| Arc::clone(&server).handle(request)).await?)
    });
    // Event streams do not end by themselves, so they are abandoned.
    runtime.shutdown_background();
    result
}

impl WebServer {
    async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        let mut response = self.respond(request).await;
        response::add_safety_headers(response.headers_mut());
        response
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Response<ResponseBody> {
        let (head, body) = request.into_parts();
        let is_api = is_api_path(head.uri.path());
        let refuse = |refusal: Refusal| {
            if is_api && refusal.status() == StatusCode::UNAUTHORIZED {
                page::token_refusal(refusal, &head.headers, &self.policy)
            } else {
                page::refusal(refusal, is_api)
            }
        };
        if !self.policy.allows_host(&head.headers) {
            return refuse(Refusal::UnknownHost);
        }
        if head.uri.path() == SIGN_IN_PATH {
            let query = Query::parse(head.uri.query().unwrap_or_default());
            return self.sign_in(&head, &query);
        }
        let route = Route::parse(&head.method, head.uri.path());
        // A request without a route is checked like one that reads.
        let effect = route.map_or(access::RequestEffect::Read, |route| route.effect());
        let credential = self.find_credential(&head.headers);
        let admitted = access::check_browser_headers(&head.headers, effect)
            .and(credential)
            .and_then(|credential| access::check_effect(&head.headers, effect, credential));
        // The checks of the peer, of `Host` and of the origin apply to open metrics too.
        let is_open = self.open_metrics && route == Ok(Route::Metrics);
        if let Err(refusal) = admitted
            && !(is_open && refusal.status() == StatusCode::UNAUTHORIZED)
        {
            return refuse(refusal);
        }
        let Ok(Route::NamedApi { name, .. }) = route else {
            return self.answer(route, &head, credential.ok(), body).await;
        };
        match api::resolve_path(&self.context, head.uri.path(), name) {
            Ok(path) => {
                let route = Route::parse(&head.method, &path);
                self.answer(route, &head, credential.ok(), body).await
            }
            Err((status, message)) => response::json_error(status, &message),
        }
    }

    /// Answers a request that has passed all checks. `route` has the complete id of a task.
    async fn answer(
        &self,
        route: Result<Route<'_>, RouteError>,
        head: &http::request::Parts,
        credential: Option<Credential>,
        body: Incoming,
    ) -> Response<ResponseBody> {
        let context = &self.context;
        let is_api = is_api_path(head.uri.path());
        let query = Query::parse(head.uri.query().unwrap_or_default());
        match route {
            Err(RouteError::NotFound) | Ok(Route::NamedApi { .. }) => {
                page::failure(StatusCode::NOT_FOUND, is_api)
            }
            Err(RouteError::WrongMethod) => page::failure(StatusCode::METHOD_NOT_ALLOWED, is_api),
            Ok(Route::Act(..) | Route::Terminal(..) | Route::Acknowledge) if !context.control => {
                page::refusal(Refusal::ReadOnly, is_api)
            }
            Ok(Route::Act(id, act)) => act::run(context, id, act, body).await,
            Ok(Route::Terminal(id, act)) => typing::run(context, id, act, credential, body).await,
            Ok(Route::Acknowledge) => act::acknowledge(context, body).await,
            Ok(Route::Asset(name)) => assets::respond(name),
            Ok(Route::Stream(StreamRoute::Tasks)) => {
                event_stream::task_events(context, &query, &head.headers)
            }
            Ok(Route::Stream(StreamRoute::Output(id))) => {
                event_stream::output_events(context, id, &query, &head.headers)
            }
            Ok(Route::Page(route)) => page::respond(context, route, &query),
            Ok(Route::NamedTask(name)) => page::redirect_to_task(context, name),
            Ok(Route::Api(route)) => api::respond(context, route, &query),
            Ok(Route::Metrics) => api::serve_metrics(context),
        }
    }

    fn find_credential(&self, headers: &http::HeaderMap) -> Result<Credential, Refusal> {
        if self.policy.has_token(headers) {
            return Ok(Credential::Token);
        }
        self.sign_in.find_credential(headers).ok_or_else(|| access::missing_credential(headers))
    }

    /// Exchanges the code in the address for a cookie and, if links are a person's, a page key.
    fn sign_in(&self, head: &http::request::Parts, query: &Query) -> Response<ResponseBody> {
        // A browser that loads a page in advance must not use up the link.
        let is_prefetch = ["sec-purpose", "purpose"].iter().any(|name| {
            head.headers.get(*name).is_some_and(|value| value.as_bytes().starts_with(b"prefetch"))
        });
        let refusal = access::check_browser_headers(&head.headers, access::RequestEffect::Read);
        if let Err(refusal) = refusal {
            return page::refusal(refusal, false);
        }
        if head.method != http::Method::GET || is_prefetch {
            return page::failure(StatusCode::METHOD_NOT_ALLOWED, false);
        }
        match self.sign_in.redeem(query.get("code").unwrap_or_default()) {
            Ok(Some(grant)) => {
                let is_person = self.context.is_person;
                if let Ok(link) = self.sign_in.create_link(&self.origin, is_person) {
                    (self.tell)(WebMessage::SignedIn { link: &link });
                }
                let mut response = page::sign_in_page(grant.page_key.as_deref());
                if let Ok(value) = http::HeaderValue::from_str(&grant.set_cookie) {
                    response.headers_mut().insert(http::header::SET_COOKIE, value);
                }
                response
            }
            Ok(None) => page::refusal(Refusal::SignedOut, false),
            Err(_) => page::failure(StatusCode::INTERNAL_SERVER_ERROR, false),
        }
    }
}

/// Returns whether an address is for programs, which receive errors as JSON.
fn is_api_path(path: &str) -> bool {
    path.starts_with("/api/") || path == METRICS_PATH
}

/// Returns the beginning of a link to a server. A server that listens on all addresses is reached
/// under the first allowed name, otherwise under its loopback address.
fn link_origin(address: SocketAddr, hosts: &[String]) -> String {
    if !address.ip().is_unspecified() {
        return format!("http://{address}");
    }
    let host = hosts.first().map_or("127.0.0.1", String::as_str);
    format!("http://{host}:{}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_an_allowed_name() {
        let origin = |address: &str, hosts: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            link_origin(address.parse().expect("an address"), &hosts)
        };
        assert_eq!(origin("127.0.0.1:7000", &["a"]), "http://127.0.0.1:7000");
        assert_eq!(origin("[::1]:7000", &[]), "http://[::1]:7000");
        assert_eq!(origin("0.0.0.0:7000", &[]), "http://127.0.0.1:7000");
        assert_eq!(origin("0.0.0.0:7000", &["build.example"]), "http://build.example:7000");
    }
}

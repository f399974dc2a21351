//! A server at the other end: the handshake, one question at a time, and hearing of changes.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
    ResourceUpdatedNotificationParam, SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt,
    NotificationContext, Peer, RoleClient, RunningService, RunningServiceCancellationToken,
};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::decide::Event;
use super::reading::{Unread, read, told};
use super::server::{self, Process};
use super::{Say, Server, Watch, What, web};

/// How long a server may take for the handshake. One that is fetched first takes a while.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How long it may take for an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Time between two looks, however often the server tells of changes.
const PACE: Duration = Duration::from_millis(250);
/// How long it is waited for the end of a server whose connection has ended, to say how.
const AT_ONCE: Duration = Duration::from_millis(500);
/// How long a connection may take to be closed.
const CLOSE: Duration = Duration::from_secs(2);

/// Why there is no server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It may be there later.
    Gone(String),
    /// It will not.
    Hopeless(String),
}

impl From<Fault> for Event {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone(why) => Self::Gone(why),
            Fault::Hopeless(why) => Self::Hopeless(why),
        }
    }
}

/// Hears what a server says by itself.
#[derive(Debug, Clone, Default)]
struct Ear(Arc<Notify>);

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("siding", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_resource_updated(
        &self,
        _params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Only one is subscribed to.
        self.0.notify_one();
    }
}

/// A connection to a server.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// Ends when the connection does.
    over: JoinHandle<()>,
    /// Closes it.
    close: RunningServiceCancellationToken,
    changed: Arc<Notify>,
    /// Whether the server tells of changes.
    pub(super) is_subscribed: bool,
    process: Option<Process>,
    /// What listens beside; it ends with this.
    _listening: JoinSet<()>,
}

impl Connection {
    /// Starts or reaches the server, shakes hands, and subscribes where that can be.
    ///
    /// The older handshake comes first: every server has it so far, and some leave at a word that
    /// they do not know. One that refuses it is asked as the newer revision has it.
    pub(super) async fn open(watch: &Watch, say: &Say) -> Result<Self, Fault> {
        match Self::begin(watch, say, ClientLifecycleMode::Initialize).await {
            Err(Begun::Refused(_)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let newer = ClientLifecycleMode::Discover { preferred_versions };
                Self::begin(watch, say, newer).await
            }
            begun => begun,
        }
        .map_err(|begun| match begun {
            Begun::Refused(why) => Fault::Hopeless(format!("it refuses the handshake: {why}")),
            Begun::Failed(fault) => fault,
        })
    }

    async fn begin(watch: &Watch, say: &Say, mode: ClientLifecycleMode) -> Result<Self, Begun> {
        let ear = Ear::default();
        let changed = Arc::clone(&ear.0);
        let (mut process, begun) = match &watch.server {
            Server::Program(command) => {
                let (process, pipes) = server::start(command, say)?;
                let begun = ear.serve_with_lifecycle((pipes.from, pipes.to), mode);
                (Some(process), timeout(HANDSHAKE, begun).await)
            }
            Server::Url { url, bearer } => {
                let transport = web::transport(url, bearer.as_ref())?;
                let begun = ear.serve_with_lifecycle(transport, mode);
                (None, timeout(HANDSHAKE, begun).await)
            }
        };
        let error = match begun {
            Ok(Ok(service)) => {
                let mut listening = JoinSet::new();
                let is_subscribed = subscribe(&service, watch, &changed, &mut listening).await;
                // What it said before is no answer to what is asked now.
                service.set_response_cache_config(ClientCacheConfig::disabled()).await;
                return Ok(Self {
                    peer: service.peer().clone(),
                    close: service.cancellation_token(),
                    over: tokio::spawn(async move {
                        let _why = service.waiting().await;
                    }),
                    changed,
                    is_subscribed,
                    process,
                    _listening: listening,
                });
            }
            Ok(Err(ClientInitializeError::JsonRpcError(error))) => Begun::Refused(told(&error)),
            Ok(Err(error)) if error.is_authorization_required() => {
                let why = "it wants another token: name a variable that holds it with --bearer-env";
                Begun::Failed(Fault::Hopeless(why.to_owned()))
            }
            Ok(Err(error)) => {
                let how = match &mut process {
                    Some(process) => process.ended(AT_ONCE).await,
                    None => None,
                };
                let why = how.map_or_else(|| error.to_string(), |how| format!("it ended: {how}"));
                let why = format!("no handshake: {why}");
                Begun::Failed(if how.is_some_and(server::is_no_program) {
                    Fault::Hopeless(format!("{why}, which a shell says of what it cannot start"))
                } else {
                    Fault::Gone(why)
                })
            }
            Err(_) => {
                let seconds = HANDSHAKE.as_secs();
                Begun::Failed(Fault::Gone(format!("no handshake within {seconds}s")))
            }
        };
        if let Some(process) = process {
            process.leave().await;
        }
        Err(error)
    }

    /// Waits this long, or until the server tells of a change, and asks.
    pub(super) async fn ask(&mut self, what: &What, after: Duration) -> Event {
        let Self { peer, changed, over, .. } = self;
        let waited = async {
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                () = changed.notified() => tokio::time::sleep(PACE).await,
            }
            timeout(ANSWER, read(peer, what)).await
        };
        let answer = tokio::select! {
            answer = waited => Some(answer),
            _ = over => None,
        };
        match answer {
            Some(Ok(Ok(text))) => Event::Read(text),
            Some(Ok(Err(Unread::Refused(why)))) => Event::Refused(why),
            Some(Ok(Err(Unread::Lost(why)))) => self.gone(&why).await,
            Some(Err(_)) => Event::Refused(format!("no answer within {}s", ANSWER.as_secs())),
            None => self.gone("the connection has ended").await,
        }
    }

    /// Says how it was lost.
    async fn gone(&mut self, why: &str) -> Event {
        let how = match &mut self.process {
            Some(process) => process.ended(AT_ONCE).await,
            None => None,
        };
        Event::Gone(how.map_or_else(|| why.to_owned(), |how| format!("it ended: {how}")))
    }

    /// Closes it, and ends its process.
    pub(super) async fn end(mut self) {
        self.close.cancel();
        if !self.over.is_finished() {
            // What does not end in time ends with the process.
            let _closed = timeout(CLOSE, &mut self.over).await;
        }
        if let Some(process) = self.process.take() {
            process.leave().await;
        }
    }
}

/// Why there is no connection.
enum Begun {
    /// The server has answered that it will not.
    Refused(String),
    /// Anything else.
    Failed(Fault),
}

impl From<Fault> for Begun {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Subscribes to a resource. Returns whether the server tells of its changes from now on.
async fn subscribe(
    service: &RunningService<RoleClient, Ear>,
    watch: &Watch,
    changed: &Arc<Notify>,
    listening: &mut JoinSet<()>,
) -> bool {
    let (What::Resource(uri), Some(info)) = (&watch.what, service.peer_info()) else {
        return false;
    };
    let resources = info.capabilities.resources.as_ref();
    if resources.and_then(|resources| resources.subscribe) != Some(true) {
        return false;
    }
    let peer = service.peer().clone();
    if !info.protocol_version.has_initialize() {
        let filter = SubscriptionFilter::builder().resource_subscription(uri.as_str()).build();
        listening.spawn(listen(peer, filter, Arc::clone(changed), watch.every));
        return true;
    }
    #[expect(deprecated, reason = "the older handshake has no other way")]
    let subscribed = peer.subscribe(SubscribeRequestParams::new(uri.as_str()));
    matches!(timeout(ANSWER, subscribed).await, Ok(Ok(())))
}

/// Listens as the newer revision has it, again when that ends; what was missed is looked for.
async fn listen(
    peer: Peer<RoleClient>,
    filter: SubscriptionFilter,
    changed: Arc<Notify>,
    every: Duration,
) {
    while !peer.is_transport_closed() {
        if let Ok(mut subscription) = peer.listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {
                changed.notify_one();
            }
        }
        tokio::time::sleep(every).await;
        changed.notify_one();
    }
}

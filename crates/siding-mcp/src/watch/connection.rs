//! A connection to a server: the handshake, one request at a time, and change notifications.

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

use super::request::{ReadError, format_error, read_target};
use super::server_process::{self, ServerProcess};
use super::state::WatchEvent;
use super::{LineOutput, McpTarget, WatchSpec, WatchedServer, http_transport};

/// Timeout of the handshake. The timeout is long, because a package runner may first download the
/// server.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum time between two requests, however often the server notifies of changes.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum wait for the exit status of a server whose connection has closed.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// Maximum wait for a connection to close before the server's process is terminated.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why the server is not connected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionError {
    /// A later attempt may succeed.
    Retryable(String),
    /// Every later attempt would fail too.
    Permanent(String),
}

impl From<ConnectionError> for WatchEvent {
    fn from(fault: ConnectionError) -> Self {
        match fault {
            ConnectionError::Retryable(why) => Self::Disconnected(why),
            ConnectionError::Permanent(why) => Self::Fatal(why),
        }
    }
}

/// Receives the server's notifications, and wakes [`Connection::wait_and_read`] at a change.
#[derive(Debug, Clone, Default)]
struct ChangeListener(Arc<Notify>);

impl ClientHandler for ChangeListener {
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
        // There is only one subscription, so the notification is about the watched resource.
        self.0.notify_one();
    }
}

/// A connection to a server that has accepted the handshake.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    /// Finishes when the connection ends.
    ended: JoinHandle<()>,
    /// Cancels the SDK's service, which closes the connection.
    close: RunningServiceCancellationToken,
    changed: Arc<Notify>,
    /// Whether the server notifies of changes.
    pub(super) is_subscribed: bool,
    process: Option<ServerProcess>,
    /// The tokio task that receives change notifications of the newer protocol revision; empty with
    /// the older one and without a subscription. Dropping the set aborts the tokio task.
    _listening: JoinSet<()>,
}

impl Connection {
    /// Starts or connects to the server, performs the handshake, and subscribes if the server
    /// supports subscriptions.
    ///
    /// The older handshake is tried first: every server supports it so far, and some exit when they
    /// receive an unknown method. A server that refuses the older handshake is tried with the newer
    /// one.
    pub(super) async fn open(watch: &WatchSpec, say: &LineOutput) -> Result<Self, ConnectionError> {
        match Self::handshake(watch, say, ClientLifecycleMode::Initialize).await {
            Err(HandshakeError::Refused(_)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let newer = ClientLifecycleMode::Discover { preferred_versions };
                Self::handshake(watch, say, newer).await
            }
            begun => begun,
        }
        .map_err(|begun| match begun {
            HandshakeError::Refused(why) => {
                ConnectionError::Permanent(format!("the server refuses the handshake: {why}"))
            }
            HandshakeError::Failed(fault) => fault,
        })
    }

    async fn handshake(
        watch: &WatchSpec,
        say: &LineOutput,
        mode: ClientLifecycleMode,
    ) -> Result<Self, HandshakeError> {
        let listener = ChangeListener::default();
        let changed = Arc::clone(&listener.0);
        let (mut process, begun) = match &watch.server {
            WatchedServer::Program(command) => {
                let (process, pipes) = server_process::start(command, say)?;
                let begun = listener.serve_with_lifecycle((pipes.stdout, pipes.stdin), mode);
                (Some(process), timeout(HANDSHAKE_TIMEOUT, begun).await)
            }
            WatchedServer::Url { url, bearer } => {
                let transport = http_transport::open_transport(url, bearer.as_ref())?;
                let begun = listener.serve_with_lifecycle(transport, mode);
                (None, timeout(HANDSHAKE_TIMEOUT, begun).await)
            }
        };
        let error = match begun {
            Ok(Ok(service)) => {
                let mut listening = JoinSet::new();
                let is_subscribed = subscribe(&service, watch, &changed, &mut listening).await;
                // A cached response would hide a change.
                service.set_response_cache_config(ClientCacheConfig::disabled()).await;
                return Ok(Self {
                    peer: service.peer().clone(),
                    close: service.cancellation_token(),
                    ended: tokio::spawn(async move {
                        let _best_effort = service.waiting().await;
                    }),
                    changed,
                    is_subscribed,
                    process,
                    _listening: listening,
                });
            }
            Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
                HandshakeError::Refused(format_error(&error))
            }
            Ok(Err(error)) if error.is_authorization_required() => {
                let why = "the server rejects the token, or requires one; --bearer-env names the variable that holds it";
                HandshakeError::Failed(ConnectionError::Permanent(why.to_owned()))
            }
            Ok(Err(error)) => {
                let how = match &mut process {
                    Some(process) => process.wait_exit(EXIT_WAIT).await,
                    None => None,
                };
                let why = how.map_or_else(|| error.to_string(), |how| format!("it ended: {how}"));
                let why = format!("no handshake: {why}");
                HandshakeError::Failed(if how.is_some_and(server_process::is_missing_program) {
                    ConnectionError::Permanent(format!(
                        "{why}, the code of a shell for a program that it cannot start"
                    ))
                } else {
                    ConnectionError::Retryable(why)
                })
            }
            Err(_) => {
                let seconds = HANDSHAKE_TIMEOUT.as_secs();
                HandshakeError::Failed(ConnectionError::Retryable(format!(
                    "no handshake within {seconds}s"
                )))
            }
        };
        if let Some(process) = process {
            process.shutdown().await;
        }
        Err(error)
    }

    /// Waits for `after`, or until the server notifies of a change, and then reads the target.
    pub(super) async fn wait_and_read(
        &mut self,
        target: &McpTarget,
        after: Duration,
    ) -> WatchEvent {
        let Self { peer, changed, ended: over, .. } = self;
        let waited = async {
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                () = changed.notified() => tokio::time::sleep(MIN_POLL_INTERVAL).await,
            }
            timeout(REQUEST_TIMEOUT, read_target(peer, target)).await
        };
        let answer = tokio::select! {
            answer = waited => Some(answer),
            _ = over => None,
        };
        match answer {
            Some(Ok(Ok(text))) => WatchEvent::Read(text),
            Some(Ok(Err(ReadError::Refused(why)))) => WatchEvent::Refused(why),
            Some(Ok(Err(ReadError::Lost(why)))) => self.disconnected_event(&why).await,
            Some(Err(_)) => {
                WatchEvent::Refused(format!("no answer within {}s", REQUEST_TIMEOUT.as_secs()))
            }
            None => self.disconnected_event("the connection has ended").await,
        }
    }

    /// Returns the event of a lost connection, with the exit status of the server if there is one.
    async fn disconnected_event(&mut self, why: &str) -> WatchEvent {
        let how = match &mut self.process {
            Some(process) => process.wait_exit(EXIT_WAIT).await,
            None => None,
        };
        WatchEvent::Disconnected(
            how.map_or_else(|| why.to_owned(), |how| format!("it ended: {how}")),
        )
    }

    /// Closes the connection, and ends the server's process.
    pub(super) async fn shutdown(mut self) {
        self.close.cancel();
        if !self.ended.is_finished() {
            // If the connection does not close in time, the end of the process closes it.
            let _best_effort = timeout(CLOSE_TIMEOUT, &mut self.ended).await;
        }
        if let Some(process) = self.process.take() {
            process.shutdown().await;
        }
    }
}

/// The reason why the handshake failed.
enum HandshakeError {
    /// The server answered with an error.
    Refused(String),
    /// The server did not answer, rejected the token, or could not be started or reached.
    Failed(ConnectionError),
}

impl From<ConnectionError> for HandshakeError {
    fn from(fault: ConnectionError) -> Self {
        Self::Failed(fault)
    }
}

/// Subscribes to the watched resource. Returns whether the server has accepted the subscription or
/// is expected to.
async fn subscribe(
    service: &RunningService<RoleClient, ChangeListener>,
    watch: &WatchSpec,
    changed: &Arc<Notify>,
    listening: &mut JoinSet<()>,
) -> bool {
    let (McpTarget::Resource(uri), Some(info)) = (&watch.target, service.peer_info()) else {
        return false;
    };
    let resources = info.capabilities.resources.as_ref();
    if resources.and_then(|resources| resources.subscribe) != Some(true) {
        return false;
    }
    let peer = service.peer().clone();
    if !info.protocol_version.has_initialize() {
        let filter = SubscriptionFilter::builder().resource_subscription(uri.as_str()).build();
        listening.spawn(listen(peer, filter, Arc::clone(changed), watch.interval));
        return true;
    }
    #[expect(deprecated, reason = "the older handshake has no other method")]
    let subscribed = peer.subscribe(SubscribeRequestParams::new(uri.as_str()));
    matches!(timeout(REQUEST_TIMEOUT, subscribed).await, Ok(Ok(())))
}

/// Receives change notifications of the newer revision, and subscribes again when the stream ends.
/// A change between two streams is found by polling.
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

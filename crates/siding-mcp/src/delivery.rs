//! Records acknowledgements after an answer has been written to the client on standard output and
//! never before, because a client that has disconnected or has canceled its request has received
//! nothing.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use siding_tools::async_fd::run_blocking;
use siding_tools::{DeliveryAck, ToolContext};

/// Maximum wait of a call until another call's answer has been written and acknowledged.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);

/// The acknowledgements for answers of one connection that have not been written yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingAcks {
    pending: Arc<Mutex<HashMap<RequestId, Vec<DeliveryAck>>>>,
    /// Held while an answer is written and acknowledged.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl PendingAcks {
    /// Stores what to acknowledge when the response to `request` has been written.
    pub(crate) fn insert(&self, request: RequestId, acks: Vec<DeliveryAck>) {
        self.lock().insert(request, acks);
    }

    /// Waits until every answer that the client can have read is acknowledged, because the client's
    /// next call may depend on these acknowledgements. The wait is bounded, because a client may
    /// stop reading.
    pub(crate) async fn wait_settled(&self) {
        let _best_effort =
            tokio::time::timeout(SETTLE_TIMEOUT, self.writing.lock()).await.map(drop);
    }

    fn take_for_response(
        &self,
        message: &TxJsonRpcMessage<RoleServer>,
    ) -> Option<Vec<DeliveryAck>> {
        let JsonRpcMessage::Response(response) = message else { return None };
        self.lock().remove(&response.id)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Vec<DeliveryAck>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transport that acknowledges each response after writing it.
#[derive(Debug)]
pub(crate) struct AckingTransport<T> {
    pub(crate) connection: T,
    pub(crate) tool_context: Arc<ToolContext>,
    pub(crate) pending_acks: PendingAcks,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for AckingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let acks = self.pending_acks.take_for_response(&message);
        let writing = Arc::clone(&self.pending_acks.writing);
        let tool_context = Arc::clone(&self.tool_context);
        let written = self.connection.send(message);
        async move {
            let Some(due) = acks else { return written.await };
            let _keeps_alive = writing.lock().await;
            written.await?;
            run_blocking(|| tool_context.acknowledge(due));
            Ok(())
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleServer>>> + Send {
        self.connection.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.connection.close()
    }
}

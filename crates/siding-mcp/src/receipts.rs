//! What is noted once an answer has been written to its client, and never before: a client that has
//! gone, or does not want the answer any more, was told nothing.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use siding_tools::sleep::block;
use siding_tools::{Host, Receipt};

/// How long a call waits for the answer of another to be written and noted.
const SETTLE: Duration = Duration::from_millis(500);

/// The receipts of the answers of one connection that are on their way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Receipts {
    due: Arc<Mutex<HashMap<RequestId, Vec<Receipt>>>>,
    /// Held from before an answer is written until it is noted.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl Receipts {
    /// Keeps what is to be noted when a request has its answer.
    pub(crate) fn keep(&self, request: RequestId, receipts: Vec<Receipt>) {
        self.all().insert(request, receipts);
    }

    /// Returns when whatever the client has read is noted: its next call may build on it. A client
    /// that does not read is not waited for long.
    pub(crate) async fn settled(&self) {
        let _a_client_that_does_not_read =
            tokio::time::timeout(SETTLE, self.writing.lock()).await.map(drop);
    }

    fn take(&self, message: &TxJsonRpcMessage<RoleServer>) -> Option<Vec<Receipt>> {
        let JsonRpcMessage::Response(response) = message else { return None };
        self.all().remove(&response.id)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Vec<Receipt>>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that notes what its client has been told.
#[derive(Debug)]
pub(crate) struct Noted<T> {
    pub(crate) connection: T,
    pub(crate) host: Arc<Host>,
    pub(crate) receipts: Receipts,
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Noted<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let due = self.receipts.take(&message);
        let writing = Arc::clone(&self.receipts.writing);
        let host = Arc::clone(&self.host);
        let written = self.connection.send(message);
        async move {
            let Some(due) = due else { return written.await };
            let _until_noted = writing.lock().await;
            written.await?;
            block(|| host.note(due));
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

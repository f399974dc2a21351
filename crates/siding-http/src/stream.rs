//! Responses whose bodies are produced while they are sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc::Receiver;

use crate::server::ResponseBody;

/// A response body that consists of the queued pieces.
struct QueuedBody(Receiver<Bytes>);

impl Body for QueuedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Returns a response whose body ends when the sender of `pieces` is dropped. The receiver is
/// dropped when the client disconnects. The header `Cache-Control` forbids storing the response.
#[must_use]
pub fn stream_response(
    pieces: Receiver<Bytes>,
    content_type: &'static str,
) -> Response<ResponseBody> {
    let mut response = Response::new(QueuedBody(pieces).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

//! HTTP/1 on one connection of a server.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::files::FileBody;

/// The time limit for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest header of a request. It also limits the part of a response that hyper holds, besides one part
/// of the file.
const MAX_HEADER: usize = 32 << 10;
/// The time for which further data of a client is read after the last response.
const LINGER: Duration = Duration::from_secs(5);
/// The limit of that data.
const MAX_LINGER: usize = 4 << 20;

/// Answers the requests of one connection.
pub(crate) async fn serve<S, A, F>(stream: S, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Parts) -> F,
    F: Future<Output = Response<FileBody>>,
{
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(request.into_parts().0);
        Box::pin(async move { Ok::<_, Infallible>(response.await) })
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER)
        // A client that has sent all its requests may close its direction before it has read the responses.
        .half_close(true);
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    // The log already reports a client that has closed the connection.
    let _ = std::future::poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    linger(connection.into_parts().io.into_inner()).await;
}

/// Ends this side's direction, and reads further data of the client: a stream dropped with unread data is
/// reset, and the reset may overtake the response with the error.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = vec![0; 4096];
    let reading = async {
        let mut left = MAX_LINGER;
        while left > 0 {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(n) => left = left.saturating_sub(n),
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, reading).await;
}

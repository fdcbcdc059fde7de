//! The state of a proxy on a socket of UNIX: `/metrics` for Prometheus, and JSON for anything else.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::status::Status;

/// The socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct StatusSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl StatusSocket {
    /// Makes the socket; only this user may connect, as the connections name destinations. The socket of a process that
    /// is gone is replaced.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn bind(path: &Path) -> io::Result<StatusSocket> {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        if is_socket && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(StatusSocket { listener, path: path.to_owned() })
    }

    /// Answers requests.
    pub async fn serve(&self, status: Arc<Status>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(tokio::time::timeout(
                        Duration::from_secs(5),
                        answer(stream, Arc::clone(&status)),
                    ));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(mut stream: UnixStream, status: Arc<Status>) {
    let mut request = [0; 1024];
    let read = stream.read(&mut request).await.unwrap_or(0);
    let look = status.look().await;
    let (kind, body) = if request[..read].starts_with(b"GET /metrics") {
        ("text/plain; version=0.0.4", look.metrics())
    } else {
        ("application/json", serde_json::to_string(&look).unwrap_or_default() + "\n")
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // A client that is gone is no error.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

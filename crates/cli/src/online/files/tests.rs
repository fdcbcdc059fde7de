//! Files over HTTP, on a connection in memory.

use std::sync::Arc;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Files, Grant, Granted};
use crate::online::conversation;

/// Returns a grant of any amount.
fn plenty() -> Grant {
    Arc::new(|_, most| Poll::Ready(Ok(Granted { bytes: most, charge: None })))
}

/// Returns the server's answer to `request`, after which the client sends nothing more.
async fn ask(files: &Files, request: impl AsRef<[u8]>) -> String {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let files = files.clone();
    let server = tokio::spawn(conversation::serve(far, move |request| {
        let files = files.clone();
        async move { files.answer(&request, plenty()).await }
    }));
    near.write_all(request.as_ref()).await.unwrap();
    // Like `nc -N`: the server answers nevertheless.
    near.shutdown().await.unwrap();
    let mut answer = Vec::new();
    near.read_to_end(&mut answer).await.unwrap();
    server.await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// Returns status, `Content-Range` and body.
async fn get(files: &Files, target: &str, headers: &str) -> (u16, Option<String>, String) {
    let answer = ask(files, format!("GET {target} HTTP/1.1\r\nHost: a\r\n{headers}\r\n")).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let range = head.lines().find_map(|line| line.strip_prefix("content-range: "));
    (status, range.map(str::to_owned), body.to_owned())
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn files() -> (tempfile::TempDir, Files) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let digits: String = (0..1000).map(|n| char::from(b'0' + (n % 10) as u8)).collect();
    std::fs::write(path.join("thousand.txt"), digits).unwrap();
    std::fs::write(path.join("empty"), "").unwrap();
    std::fs::create_dir(path.join("dir")).unwrap();
    std::fs::write(path.join("dir/index.html"), "index").unwrap();
    let files = Files::open(path).unwrap();
    (directory, files)
}

#[tokio::test]
async fn ranges_are_served_as_nginx_serves_them() {
    let (_directory, files) = files();
    let answer = async |target: &str, range: &str| {
        let (status, range, body) = get(&files, target, &format!("Range: {range}\r\n")).await;
        (status, range.unwrap_or_default(), body.len())
    };
    let thousand = async |range: &str| answer("/thousand.txt", range).await;
    assert_eq!(thousand("bytes=1-3").await, (206, "bytes 1-3/1000".into(), 3));
    assert_eq!(thousand("bytes=-5000").await, (206, "bytes 0-999/1000".into(), 1000));
    assert_eq!(thousand("bytes=999-2000").await, (206, "bytes 999-999/1000".into(), 1));
    assert_eq!(thousand("lines=1-2").await, (200, String::new(), 1000));
    let unsatisfiable = async |range: &str| {
        let (status, range, _) = thousand(range).await;
        (status, range)
    };
    assert_eq!(unsatisfiable("bytes=1000-").await, (416, "bytes */1000".into()));
    assert_eq!(unsatisfiable("bytes=-0").await, (416, "bytes */1000".into()));
    // For several parts nginx sends a multipart response; the whole file is permitted too (RFC 9110 section
    // 14.2).
    assert_eq!(thousand("bytes=0-1,4-5").await, (200, String::new(), 1000));
    assert_eq!(answer("/empty", "bytes=0-").await, (200, String::new(), 0));
    assert_eq!(answer("/empty", "bytes=-5").await, (200, String::new(), 0));
    assert_eq!(answer("/empty", "bytes=5-").await.0, 416);
    let other_version = "Range: bytes=1-3\r\nIf-Range: \"other\"\r\n";
    assert_eq!(get(&files, "/thousand.txt", other_version).await.0, 200);
    let head = ask(&files, "HEAD /thousand.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-3\r\n\r\n").await;
    assert!(
        status(&head) == 200 && head.contains("content-length: 1000") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let (_directory, files) = files();
    let of = async |request: &str| status(&ask(&files, request).await);
    assert_eq!(of("GET /thousand.txt HTTP/1.1\r\n\r\n").await, 400);
    assert_eq!(of("GET /thousand.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await, 400);
    assert_eq!(of("GET /thousand.txt HTTP/1.0\r\n\r\n").await, 200);
    assert_eq!(of("GET thousand.txt HTTP/1.1\r\nHost: a\r\n\r\n").await, 400);
    assert_eq!(of("GET dir/thousand.txt HTTP/1.1\r\nHost: a\r\n\r\n").await, 400);
    assert_eq!(of("GET * HTTP/1.1\r\nHost: a\r\n\r\n").await, 400);
    assert_eq!(of("GET http://a/thousand.txt HTTP/1.1\r\nHost: a\r\n\r\n").await, 200);
    assert_eq!(of("POST /thousand.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").await, 405);
    assert_eq!(of("nonsense\r\n\r\n").await, 400);
    assert_eq!(of("GET /none HTTP/1.1\r\nHost: a\r\n\r\n").await, 404);
}

#[tokio::test]
async fn oversized_headers_are_431_also_when_much_more_of_them_comes() {
    let (_directory, files) = files();
    let header =
        |len: usize| format!("GET /thousand.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(len));
    assert_eq!(status(&ask(&files, header(20_000)).await), 200);
    assert_eq!(status(&ask(&files, header(100_000)).await), 431);
    assert_eq!(status(&ask(&files, header(900_000)).await), 431);
    let many: String = (0..200).map(|n| format!("X-{n}: a\r\n")).collect();
    assert_eq!(get(&files, "/thousand.txt", &many).await.0, 431);
    assert_eq!(get(&files, &format!("/{}", "a".repeat(70_000)), "").await.0 / 100, 4);
}

#[tokio::test]
async fn a_directory_is_its_index_and_its_name_ends_with_a_slash() {
    let (directory, files) = files();
    assert_eq!(get(&files, "/dir/", "").await.2, "index");
    let location = async |target: &str| {
        let answer = ask(&files, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert_eq!(status(&answer), 301);
        answer.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned()
    };
    assert_eq!(location("/dir?a=b").await, "/dir/?a=b");
    // No other host.
    assert_eq!(location("//dir").await, "/dir/");
    let list = get(&files, "/", "").await.2;
    assert!(list.contains("thousand%2Etxt") && list.contains("dir/"), "{list}");
    drop(directory);
}

#[tokio::test]
async fn one_connection_carries_several_requests() {
    let (_directory, files) = files();
    let one = "GET /thousand.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = ask(&files, format!("{one}{one}{one}")).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3);
    let tag = answer.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    assert_eq!(get(&files, "/thousand.txt", &format!("If-None-Match: {tag}\r\n")).await.0, 304);
}

#[tokio::test]
async fn a_body_takes_no_more_memory_than_it_is_granted() {
    use http_body_util::BodyExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file"), vec![7; 3_000_000]).unwrap();
    let files = Files::open(directory.path()).unwrap();
    let asked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&asked);
    let grant: Grant = Arc::new(move |_, most| {
        counter.fetch_max(most, Ordering::Relaxed);
        Poll::Ready(Ok(Granted { bytes: most.min(10_000), charge: None }))
    });
    let request = hyper::Request::get("/file").header("host", "a").body(()).unwrap().into_parts().0;
    let mut body = files.answer(&request, grant).await.into_body();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let chunk = frame.unwrap().into_data().ok().unwrap();
        let len = hyper::body::Buf::remaining(&chunk);
        assert!(len <= 10_000);
        total += len;
    }
    assert_eq!((total, asked.load(Ordering::Relaxed)), (3_000_000, 256 << 10));
}

#[tokio::test]
async fn a_file_that_shrinks_ends_the_body_with_an_error() {
    use http_body_util::BodyExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![7; 100_000]).unwrap();
    let files = Files::open(directory.path()).unwrap();
    let request = hyper::Request::get("/file").header("host", "a").body(()).unwrap().into_parts().0;
    let mut body = files.answer(&request, plenty()).await.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    std::fs::File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    let mut last = Ok(());
    while let Some(frame) = body.frame().await {
        last = frame.map(drop);
        if last.is_err() {
            break;
        }
    }
    assert_eq!(last.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

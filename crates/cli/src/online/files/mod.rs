//! Serves the files of a directory over HTTP: selects the file, its part, and the status (RFC 9110).

mod body;
mod find;
mod range;
mod version;

use std::path::Path;
use std::sync::Arc;

use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST, HeaderMap,
    HeaderValue, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, SERVER,
};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode, Version as HttpVersion};

pub(crate) use body::{FileBody, Grant, Granted};
use find::{Found, Opened, Root};
use range::Wanted;
use version::Version;

/// The files of a directory.
#[derive(Clone)]
pub(crate) struct Files {
    root: Arc<Root>,
}

impl Files {
    /// Serves the directory `path`.
    ///
    /// # Errors
    /// If it is not a readable directory.
    pub(crate) fn open(path: &Path) -> std::io::Result<Files> {
        Ok(Files { root: Arc::new(Root::open(path)?) })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    /// Answers a request. The body requests its memory from `grant`.
    pub(crate) async fn answer(&self, request: &Parts, grant: Grant) -> Response<FileBody> {
        let mut response = match refuse(request) {
            Some(refused) => refused,
            None => self.find(request, grant).await,
        };
        response.headers_mut().insert(SERVER, HeaderValue::from_static("anabranch"));
        response
    }

    async fn find(&self, request: &Parts, grant: Grant) -> Response<FileBody> {
        let (root, path) = (Arc::clone(&self.root), request.uri.path().to_owned());
        let found = tokio::task::spawn_blocking(move || root.find(&path)).await;
        let head = request.method == Method::HEAD;
        match found.unwrap_or(Found::Busy) {
            Found::File(opened) => file(&opened, &request.headers, head, grant),
            Found::Listing(html) => {
                let length = html.len();
                let mut response = with(if head { FileBody::Text(Default::default()) } else { text(html) });
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
                headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
                response
            }
            Found::Directory => redirect(request),
            Found::Nothing => plain(StatusCode::NOT_FOUND, "there is no such file\n"),
            Found::Forbidden => plain(StatusCode::FORBIDDEN, "no permission to read this file\n"),
            Found::Busy => {
                let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "too many files are open\n");
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
                response
            }
        }
    }
}

/// Returns the response to a request that is malformed, or does not ask for a file.
fn refuse(request: &Parts) -> Option<Response<FileBody>> {
    let hosts = request.headers.get_all(HOST).iter().count();
    // RFC 9112 section 3.2: exactly one, since HTTP/1.1.
    let wrong_host = hosts > 1 || (hosts == 0 && request.version >= HttpVersion::HTTP_11);
    // RFC 9112 section 3.2.1: a path, or a whole URL. A name without a slash is parsed as an authority.
    let no_path = !request.uri.path().starts_with('/')
        || (request.uri.scheme().is_none() && request.uri.authority().is_some());
    let problem = match () {
        () if wrong_host => "a request needs exactly one Host header\n",
        () if no_path => "a request needs a path that begins with a slash\n",
        () if !matches!(request.method, Method::GET | Method::HEAD) => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Some(response);
        }
        () => return None,
    };
    let mut response = plain(StatusCode::BAD_REQUEST, problem);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

/// Returns the response with a file or a part of it, or with an error.
fn file(opened: &Opened, request: &HeaderMap, head: bool, grant: Grant) -> Response<FileBody> {
    let version = Version::of(opened.len, opened.modified);
    let mut response = match version.objection(request) {
        Some(status) => {
            let mut response = with(FileBody::Text(Default::default()));
            *response.status_mut() = status;
            response
        }
        None => part(opened, request, &version, head, grant),
    };
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    for (name, value) in [(ETAG, Some(version.tag.clone())), (LAST_MODIFIED, version.last_modified())] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(name, value);
        }
    }
    response
}

fn part(
    opened: &Opened,
    request: &HeaderMap,
    version: &Version,
    head: bool,
    grant: Grant,
) -> Response<FileBody> {
    // RFC 9110 section 14.2: ranges apply only to GET.
    let range = request.get(RANGE).filter(|_| !head && version.is_same_for_range(request));
    let wanted = range.map_or(Wanted::Whole, |range| range::wanted(range.as_bytes(), opened.len));
    let (range, status) = match wanted {
        Wanted::Whole => (0..opened.len, StatusCode::OK),
        Wanted::Part(range) => (range, StatusCode::PARTIAL_CONTENT),
        Wanted::Unsatisfiable => {
            let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE, "the file has no such part\n");
            insert(response.headers_mut(), CONTENT_RANGE, format!("bytes */{}", opened.len));
            return response;
        }
    };
    let len = range.end - range.start;
    let mut response = with(match head {
        true => FileBody::Text(Default::default()),
        false => FileBody::part(Arc::clone(&opened.file), range.start, len, grant),
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    let kind = mime_guess::from_path(&opened.name).first_raw().unwrap_or("application/octet-stream");
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::PARTIAL_CONTENT {
        insert(headers, CONTENT_RANGE, format!("bytes {}-{}/{}", range.start, range.end - 1, opened.len));
    }
    response
}

/// Redirects the client to the directory's name with a trailing slash.
fn redirect(request: &Parts) -> Response<FileBody> {
    // Two slashes at the beginning would name another host.
    let path = request.uri.path().trim_start_matches('/');
    let query = request.uri.query().map_or(String::new(), |query| format!("?{query}"));
    let mut response = plain(StatusCode::MOVED_PERMANENTLY, "a directory ends with a slash\n");
    insert(response.headers_mut(), LOCATION, format!("/{path}/{query}"));
    response
}

fn insert(headers: &mut HeaderMap, name: hyper::header::HeaderName, value: String) {
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(name, value);
    }
}

fn text(text: impl Into<hyper::body::Bytes>) -> FileBody {
    FileBody::Text(text.into())
}

fn with(body: FileBody) -> Response<FileBody> {
    Response::new(body)
}

fn plain(status: StatusCode, message: &'static str) -> Response<FileBody> {
    let mut response = with(text(message));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests;

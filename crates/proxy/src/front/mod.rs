//! The side of the applications: SOCKS 5 and HTTP on one port, told apart by the first byte.

pub(crate) mod http;
pub(crate) mod redirected;
pub(crate) mod socks;

use std::fmt;
use std::io;

use anabranch_scenario::policy::proxy::User;
use anabranch_stack::crypto::equal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::convert::Destination;
use crate::failure::Failure;

/// A message that was read, and its length; none if it is not complete yet.
type Read<T> = Result<Option<(T, usize)>, Wrong>;

/// The reason that a request of an application is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Another version of SOCKS.
    Version(u8),
    /// A command of SOCKS other than CONNECT.
    Command(u8),
    /// An unknown kind of address.
    AddressKind(u8),
    /// The destination is no name, no address or no port.
    Destination,
    /// No method of authentication is acceptable.
    NoMethod,
    /// The name or the password is wrong, or missing.
    Credentials,
    /// The head of a request of HTTP cannot be read.
    Head,
    TooLong,
    /// The length of the body is missing or ambiguous.
    Length,
    /// It is a request to a server, not to a proxy.
    NotForProxy,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Version(4) => {
                f.write_str("SOCKS 4 is not supported; set the application to SOCKS 5 or HTTP")
            }
            Wrong::Version(version) => write!(f, "version {version} of SOCKS is unknown"),
            Wrong::Command(2) => f.write_str("BIND of SOCKS is not supported: only connections from here"),
            Wrong::Command(3) => f.write_str("UDP ASSOCIATE of SOCKS is not supported: only TCP"),
            Wrong::Command(command) => write!(f, "command {command} of SOCKS is unknown"),
            Wrong::AddressKind(kind) => write!(f, "addresses of kind {kind} of SOCKS are unknown"),
            Wrong::Destination => f.write_str("the destination is no name or address with a port"),
            Wrong::NoMethod => f.write_str("the policy wants a name and a password"),
            Wrong::Credentials => f.write_str("the name or the password is wrong"),
            Wrong::Head => f.write_str("the request cannot be read"),
            Wrong::TooLong => write!(f, "the head of the request is longer than {} bytes", http::LONGEST),
            Wrong::Length => f.write_str("the length of the body is missing or ambiguous; use CONNECT"),
            Wrong::NotForProxy => f.write_str("this is a proxy; it has no pages"),
        }
    }
}

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Socks,
    HttpConnect,
    PlainHttp,
    /// None: the connection was redirected.
    Redirected,
}

/// A request of an application.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub destination: Destination,
    pub user: Option<String>,
    protocol: Protocol,
    /// The first data for the destination.
    pub first: Vec<u8>,
    /// The number of bytes that may follow it; none for any.
    pub then: Option<u64>,
}

impl Asked {
    /// Returns the request that a redirected connection stands for.
    pub(crate) fn redirected(destination: Destination) -> Asked {
        Asked { destination, user: None, protocol: Protocol::Redirected, first: Vec::new(), then: None }
    }

    /// True if the application takes the connection for its destination, so that it gets no answer of a proxy.
    pub(crate) fn is_redirected(&self) -> bool {
        self.protocol == Protocol::Redirected
    }

    /// Returns the answer that the destination is connected.
    pub(crate) fn connected(&self) -> Vec<u8> {
        match self.protocol {
            Protocol::Socks => socks::answer(0),
            Protocol::HttpConnect => http::ESTABLISHED.to_vec(),
            // The destination answers.
            Protocol::PlainHttp | Protocol::Redirected => Vec::new(),
        }
    }

    /// Returns the answer that there is no connection.
    pub(crate) fn failed(&self, failure: &Failure) -> Vec<u8> {
        match self.protocol {
            Protocol::Socks => socks::answer(socks::code_of(failure)),
            _ => http::response(http::status_of(failure), "", &failure.to_string()),
        }
    }
}

/// The failure of a request.
#[derive(Debug)]
pub(crate) enum Unasked {
    /// The application is gone.
    Gone,
    /// The request is refused, and the application has got the answer.
    Wrong(Wrong),
}

impl From<io::Error> for Unasked {
    fn from(_: io::Error) -> Unasked {
        Unasked::Gone
    }
}

/// The bytes of an application that were read, and not used yet.
struct Input<'a, S> {
    stream: &'a mut S,
    bytes: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Input<'_, S> {
    /// Reads a message.
    async fn message<T>(&mut self, read: impl Fn(&[u8]) -> Read<T>) -> Result<T, Unasked> {
        loop {
            match read(&self.bytes) {
                Ok(Some((message, length))) => {
                    self.bytes.drain(..length);
                    return Ok(message);
                }
                Ok(None) => {}
                Err(wrong) => return Err(Unasked::Wrong(wrong)),
            }
            // Every parser gives an answer for this number of bytes.
            if self.bytes.len() > http::LONGEST {
                return Err(Unasked::Wrong(Wrong::TooLong));
            }
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// Reads the request of an application, and authenticates it if there are users. The caller limits the time.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    users: &[User],
) -> Result<Asked, Unasked> {
    let mut input = Input { stream, bytes: Vec::new() };
    let first = input.message(|bytes| Ok(bytes.first().map(|first| (*first, 0)))).await?;
    // No method of HTTP begins with a byte that is no letter.
    let is_socks = !first.is_ascii_graphic();
    let asked = if is_socks { ask_socks(&mut input, users).await } else { ask_http(&mut input, users).await };
    if let Err(Unasked::Wrong(wrong)) = &asked {
        let answer = if is_socks { socks_refusal(wrong) } else { http_refusal(wrong) };
        // An application that is gone needs no answer.
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
    }
    asked
}

fn socks_refusal(wrong: &Wrong) -> Vec<u8> {
    match wrong {
        Wrong::NoMethod => vec![socks::VERSION, 0xff],
        Wrong::Credentials => socks::credentials_answer(false).to_vec(),
        // The answer of SOCKS 4 to a request that is refused.
        Wrong::Version(4) => vec![0, 91, 0, 0, 0, 0, 0, 0],
        wrong => socks::code_of_wrong(wrong).map(socks::answer).unwrap_or_default(),
    }
}

fn http_refusal(wrong: &Wrong) -> Vec<u8> {
    let (status, fields) = match wrong {
        Wrong::Credentials | Wrong::NoMethod => {
            ("407 Proxy Authentication Required", "Proxy-Authenticate: Basic realm=\"anabranch\"\r\n")
        }
        Wrong::TooLong => ("431 Request Header Fields Too Large", ""),
        Wrong::Length => ("411 Length Required", ""),
        _ => ("400 Bad Request", ""),
    };
    http::response(status, fields, &wrong.to_string())
}

async fn ask_socks<S: AsyncRead + AsyncWrite + Unpin>(
    input: &mut Input<'_, S>,
    users: &[User],
) -> Result<Asked, Unasked> {
    let methods = input.message(socks::greeting).await?;
    let (answer, password) = methods.answer(!users.is_empty());
    let Some(password) = password else { return Err(Unasked::Wrong(Wrong::NoMethod)) };
    input.stream.write_all(&answer).await?;
    let mut user = None;
    if password {
        let given = input.message(socks::credentials).await?;
        user = Some(authenticate(Some(given), users)?).flatten();
        input.stream.write_all(&socks::credentials_answer(true)).await?;
    }
    let destination = input.message(socks::request).await?;
    let first = std::mem::take(&mut input.bytes);
    Ok(Asked { destination, user, protocol: Protocol::Socks, first, then: None })
}

async fn ask_http<S: AsyncRead + AsyncWrite + Unpin>(
    input: &mut Input<'_, S>,
    users: &[User],
) -> Result<Asked, Unasked> {
    let head = input.message(http::head).await?;
    let user = authenticate(head.credentials, users)?;
    let rest = std::mem::take(&mut input.bytes);
    let destination = head.destination;
    Ok(match head.plain {
        None => Asked { destination, user, protocol: Protocol::HttpConnect, first: rest, then: None },
        Some((mut first, length)) => {
            // Bytes after the body would be another request.
            let body = rest.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            first.extend_from_slice(&rest[..body]);
            let then = Some(length - body as u64);
            Asked { destination, user, protocol: Protocol::PlainHttp, first, then }
        }
    })
}

/// Returns the name of the user.
fn authenticate(given: Option<(String, String)>, users: &[User]) -> Result<Option<String>, Unasked> {
    let Some((name, password)) = given else {
        return if users.is_empty() { Ok(None) } else { Err(Unasked::Wrong(Wrong::Credentials)) };
    };
    let is_right = |user: &User| {
        equal(user.name.as_bytes(), name.as_bytes()) & equal(user.password.as_bytes(), password.as_bytes())
    };
    // Without users any name is right, and only a word for the rules.
    if users.is_empty() || users.iter().any(is_right) {
        Ok(Some(name))
    } else {
        Err(Unasked::Wrong(Wrong::Credentials))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn conversation(users: &[User], sent: &[u8]) -> (Result<Asked, Unasked>, Vec<u8>) {
        let (mut here, mut there) = tokio::io::duplex(1 << 17);
        there.write_all(sent).await.unwrap();
        there.shutdown().await.unwrap();
        let asked = ask(&mut here, users).await;
        drop(here);
        let mut answer = Vec::new();
        there.read_to_end(&mut answer).await.unwrap();
        (asked, answer)
    }

    fn alice() -> Vec<User> {
        vec![User { name: "alice".to_owned(), password: "secret".to_owned() }]
    }

    #[tokio::test]
    async fn an_application_asks_by_socks_or_http_on_one_port() {
        let socks = [&[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 0, 80][..], b"first"].concat();
        let (asked, answer) = conversation(&[], &socks).await;
        let asked = asked.unwrap();
        assert_eq!(
            (asked.destination.to_string().as_str(), &asked.first[..]),
            ("192.0.2.1:80", &b"first"[..])
        );
        assert_eq!(answer, [5, 0]);
        let (asked, answer) = conversation(&[], b"CONNECT a.example:443 HTTP/1.1\r\n\r\nfirst").await;
        let asked = asked.unwrap();
        assert_eq!(
            (asked.destination.to_string().as_str(), &asked.first[..]),
            ("a.example:443", &b"first"[..])
        );
        assert!(answer.is_empty() && asked.connected().starts_with(b"HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_second_request_does_not_follow_the_first() {
        let sent = b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET http://b.example/ HTTP/1.1\r\n\r\n";
        let (asked, _) = conversation(&[], sent).await;
        let asked = asked.unwrap();
        assert!(asked.first.ends_with(b"\r\n\r\nabc"));
        assert_eq!(asked.then, Some(0));
    }

    #[tokio::test]
    async fn users_have_to_give_their_password() {
        let greeting = [5, 2, 0, 2];
        let with = |password: &str| {
            let secret = [&[1, 5][..], b"alice", &[password.len() as u8], password.as_bytes()].concat();
            [&greeting[..], &secret, &[5, 1, 0, 1, 192, 0, 2, 1, 0, 80]].concat()
        };
        let (asked, answer) = conversation(&alice(), &with("secret")).await;
        assert_eq!((asked.unwrap().user.as_deref(), &answer[..]), (Some("alice"), &[5, 2, 1, 0][..]));
        let (asked, answer) = conversation(&alice(), &with("wrong")).await;
        assert!(matches!(asked, Err(Unasked::Wrong(Wrong::Credentials))));
        assert_eq!(answer, [5, 2, 1, 1]);
        let (asked, answer) = conversation(&alice(), &[5, 1, 0]).await;
        assert!(matches!(asked, Err(Unasked::Wrong(Wrong::NoMethod))));
        assert_eq!(answer, [5, 0xff]);
        let (_, answer) = conversation(&alice(), b"CONNECT a.example:443 HTTP/1.1\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 407 "), "{}", String::from_utf8_lossy(&answer));
        let head = b"CONNECT a.example:443 HTTP/1.1\r\nProxy-Authorization: Basic YWxpY2U6c2VjcmV0\r\n\r\n";
        assert_eq!(conversation(&alice(), head).await.0.unwrap().user.as_deref(), Some("alice"));
    }

    #[tokio::test]
    async fn refusals_are_clear() {
        let (_, answer) = conversation(&[], &[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await;
        assert_eq!(answer, [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0], "UDP ASSOCIATE");
        let (_, answer) = conversation(&[], &[4, 1, 0, 80, 192, 0, 2, 1, 0]).await;
        assert_eq!(answer[..2], [0, 91], "SOCKS 4");
        let long = [b"GET http://a/ HTTP/1.1\r\nA: ".to_vec(), vec![b'a'; 60_000]].concat();
        let (asked, answer) = conversation(&[], &long).await;
        assert!(matches!(asked, Err(Unasked::Wrong(Wrong::TooLong))));
        assert!(answer.starts_with(b"HTTP/1.1 431 "));
        let (_, answer) = conversation(&[], b"GET / HTTP/1.1\r\n\r\n").await;
        assert!(String::from_utf8_lossy(&answer).contains("this is a proxy"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_application_is_not_waited_for() {
        let (mut here, mut there) = tokio::io::duplex(100);
        there.write_all(&[5]).await.unwrap();
        let limit = std::time::Duration::from_secs(10);
        assert!(tokio::time::timeout(limit, ask(&mut here, &[])).await.is_err());
    }
}

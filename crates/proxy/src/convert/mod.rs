//! Messages of the 0-RTT TCP Convert Protocol (RFC 8803): read and written, with no input or output.
//!
//! A message is the first bytes of a stream in each direction: a header with the length of the message, and elements of
//! a type, a length and a value (TLVs). The client's message names the destination and is followed by the first data; the
//! server's message has an error, or is followed by the destination's data.
//!
//! Two types are for private use (RFC 8803 section 10.2.2): the name of a destination, which the server resolves, and the
//! [authentication](seal). // RFC 8803 leaves authentication to the deployment (section 9.2).

pub mod seal;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The only version.
pub const VERSION: u8 = 1;
/// The number at the beginning of each message. // RFC 8803 section 6.1
const MAGIC: u16 = 0x2263;
/// The length of the header, in bytes.
pub const HEADER: usize = 4;
/// The unit of lengths.
const WORD: usize = 4;
/// The length of the longest message, in bytes.
pub const LONGEST: usize = 255 * WORD;

const INFO: u8 = 0x1;
const CONNECT: u8 = 0xa;
const EXTENDED_HEADER: u8 = 0x14;
const SUPPORTED: u8 = 0x15;
const COOKIE: u8 = 0x16;
const ERROR: u8 = 0x1e;
/// The name of the destination: its length in 16 bits, and the name. // Private use.
const NAME: u8 = 0xc0;

/// The TCP option of Multipath TCP.
pub const MPTCP_OPTION: u8 = 30;
/// TCP options that are ignored. // RFC 8803 sections 7.1 to 7.3
const IGNORED_OPTIONS: [u8; 5] = [0, 1, 2, 3, 5];

/// An error code. // RFC 8803 section 6.2.8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The version is not supported.
    UnsupportedVersion,
    /// A message cannot be read.
    Malformed,
    /// A type of message is not supported.
    UnsupportedMessage,
    /// The server wants a cookie.
    MissingCookie,
    /// The request is not authorized.
    NotAuthorized,
    /// A TCP option is not supported.
    UnsupportedOption,
    /// The server has not enough resources.
    ResourceExceeded,
    /// The server's network fails.
    NetworkFailure,
    /// The destination has reset the connection.
    ConnectionReset,
    /// The destination cannot be reached.
    Unreachable,
    /// Another code.
    Other(u8),
}

const CODES: [(u8, ErrorCode, &str); 10] = [
    (0, ErrorCode::UnsupportedVersion, "it does not support this version of the Convert protocol"),
    (1, ErrorCode::Malformed, "it could not read the request"),
    (2, ErrorCode::UnsupportedMessage, "it does not support this request"),
    (3, ErrorCode::MissingCookie, "it wants a cookie"),
    (32, ErrorCode::NotAuthorized, "not authorized"),
    (33, ErrorCode::UnsupportedOption, "it does not support a TCP option of the request"),
    (64, ErrorCode::ResourceExceeded, "too many connections"),
    (65, ErrorCode::NetworkFailure, "its network fails, or the name of the destination is unknown there"),
    (96, ErrorCode::ConnectionReset, "the destination refuses connections"),
    (97, ErrorCode::Unreachable, "the destination cannot be reached"),
];

impl ErrorCode {
    fn of(number: u8) -> ErrorCode {
        let found = CODES.iter().find(|(own, ..)| *own == number);
        found.map_or(ErrorCode::Other(number), |(_, code, _)| *code)
    }

    /// Returns the error code as it is on the wire.
    pub fn number(self) -> u8 {
        match self {
            ErrorCode::Other(number) => number,
            code => CODES.iter().find(|(_, own, _)| *own == code).map_or(0, |(number, ..)| *number),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODES.iter().find(|(_, own, _)| own == self) {
            Some((.., text)) => f.write_str(text),
            None => write!(f, "error {} of the Convert protocol", self.number()),
        }
    }
}

/// The reason that a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is no message of this protocol.
    Magic,
    /// Its version is another one.
    Version(u8),
    /// A length is wrong.
    Length,
    /// An element has a value that it cannot have.
    Value,
    /// It lacks an element, or has one twice.
    Elements,
    /// It has an element of this type, which is not supported.
    Unsupported(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Magic => f.write_str("it is no message of the Convert protocol"),
            Malformed::Version(version) => write!(f, "it has version {version} of the Convert protocol"),
            Malformed::Length => f.write_str("a length in it is wrong"),
            Malformed::Value => f.write_str("a value in it is wrong"),
            Malformed::Elements => f.write_str("it lacks an element, or has one twice"),
            Malformed::Unsupported(kind) => write!(f, "it has an element of the unknown type {kind}"),
        }
    }
}

/// Returns the length of the message that begins with this header, in bytes.
///
/// # Errors
/// If it is the header of no message.
pub fn length_of(header: [u8; HEADER]) -> Result<usize, Malformed> {
    let [version, words, magic @ ..] = header;
    if u16::from_be_bytes(magic) != MAGIC {
        return Err(Malformed::Magic);
    }
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    if words == 0 { Err(Malformed::Length) } else { Ok(usize::from(words) * WORD) }
}

/// An element of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element<'a> {
    kind: u8,
    /// All bytes after its length, with the padding.
    value: &'a [u8],
}

/// Returns the elements of a message.
fn elements(message: &[u8]) -> Result<Vec<Element<'_>>, Malformed> {
    let header = *message.first_chunk().ok_or(Malformed::Length)?;
    if length_of(header)? != message.len() {
        return Err(Malformed::Length);
    }
    let mut rest = &message[HEADER..];
    let mut found = Vec::new();
    while let [kind, words, ..] = *rest {
        let length = usize::from(words) * WORD;
        let (element, next) = rest.split_at_checked(length).ok_or(Malformed::Length)?;
        let value = element.get(2..).ok_or(Malformed::Length)?;
        found.push(Element { kind, value });
        rest = next;
    }
    Ok(found)
}

/// Writes a message.
#[derive(Debug)]
struct Writer(Vec<u8>);

impl Writer {
    fn new() -> Writer {
        let [high, low] = MAGIC.to_be_bytes();
        Writer(vec![VERSION, 0, high, low])
    }

    /// Adds an element; its value is padded with zeros. One that does not fit into the message is left out.
    fn element(&mut self, kind: u8, value: &[&[u8]]) {
        let length = (2 + value.iter().map(|part| part.len()).sum::<usize>()).next_multiple_of(WORD);
        let end = self.0.len() + length;
        if end > LONGEST {
            return;
        }
        self.0.extend([kind, (length / WORD) as u8]);
        value.iter().for_each(|part| self.0.extend_from_slice(part));
        self.0.resize(end, 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.0[1] = (self.0.len() / WORD) as u8;
        self.0
    }
}

/// A destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// A name, of up to 255 bytes.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Address(ip) => ip.fmt(f),
            Host::Name(name) => f.write_str(name),
        }
    }
}

/// A destination and its port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// The address, or the name that the server resolves.
    pub host: Host,
    /// The TCP port, from 1.
    pub port: u16,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            host => write!(f, "{host}:{}", self.port),
        }
    }
}

impl Destination {
    /// Returns the destination of a text, an address or a name; none if it is neither.
    pub fn new(host: &str, port: u16) -> Option<Destination> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare.unwrap_or(host).parse() {
            Ok(address) => Host::Address(address),
            Err(_) if bare.is_none() && is_name(host) => Host::Name(host.to_owned()),
            Err(_) => return None,
        };
        (port != 0).then_some(Destination { host, port })
    }
}

/// True if a text can be the name of a host: no characters that could be mistaken in a log or a header.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) || byte >= 0x80;
    // A name of digits and dots would be taken for an address of another form (`127.1`, `0x7f.1`) by some resolvers.
    let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next().unwrap_or_default();
    let number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (1..=255).contains(&text.len())
        && text.bytes().all(fits)
        && !text.chars().any(char::is_control)
        && !number
}

/// The request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The host and the port to which the server connects.
    pub destination: Destination,
    /// True if the client wants to know whether the destination has Multipath TCP.
    pub asks_for_mptcp: bool,
}

impl Request {
    fn write(&self, writer: &mut Writer) {
        let address = match &self.destination.host {
            Host::Address(IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
            Host::Address(IpAddr::V6(ip)) => *ip,
            Host::Name(name) => {
                writer.element(NAME, &[&(name.len() as u16).to_be_bytes(), name.as_bytes()]);
                Ipv6Addr::UNSPECIFIED
            }
        };
        let option: &[u8] = if self.asks_for_mptcp { &[MPTCP_OPTION, 2] } else { &[] };
        writer.element(CONNECT, &[&self.destination.port.to_be_bytes(), &address.octets(), option]);
    }

    /// Reads the elements of a request; the caller reads elements of other types.
    fn read(elements: &[Element<'_>]) -> Result<Request, Refusal> {
        let malformed = |why| Refusal { code: ErrorCode::Malformed, value: Vec::new(), why };
        let one = |kind: u8| {
            let mut found = elements.iter().filter(|element| element.kind == kind);
            match (found.next(), found.next()) {
                (one, None) => Ok(one),
                _ => Err(malformed(Malformed::Elements)),
            }
        };
        let Some(connect) = one(CONNECT)? else { return Err(malformed(Malformed::Elements)) };
        let Some((fixed, options)) = connect.value.split_first_chunk::<18>() else {
            return Err(malformed(Malformed::Length));
        };
        let port = u16::from_be_bytes([fixed[0], fixed[1]]);
        let address: [u8; 16] = fixed[2..].try_into().unwrap_or_default();
        let address = IpAddr::from(address).to_canonical();
        let host = match one(NAME)? {
            None => Host::Address(address),
            Some(element) => {
                let name = name_of(element.value).ok_or(malformed(Malformed::Value))?;
                if !address.is_unspecified() {
                    return Err(malformed(Malformed::Value));
                }
                Host::Name(name.to_owned())
            }
        };
        let cannot_be = matches!(host, Host::Address(ip) if ip.is_unspecified() || ip.is_multicast());
        if port == 0 || cannot_be {
            return Err(malformed(Malformed::Value));
        }
        let asks_for_mptcp = options_of(options)?;
        Ok(Request { destination: Destination { host, port }, asks_for_mptcp })
    }
}

fn name_of(value: &[u8]) -> Option<&str> {
    let (length, rest) = value.split_first_chunk()?;
    let name = rest.get(..usize::from(u16::from_be_bytes(*length)))?;
    std::str::from_utf8(name).ok().filter(|name| is_name(name) && name.parse::<IpAddr>().is_err())
}

/// Reads the TCP options of a request: true if Multipath TCP is among them.
fn options_of(mut options: &[u8]) -> Result<bool, Refusal> {
    let mut found = false;
    let mut unsupported = Vec::new();
    while let [kind, rest @ ..] = options {
        // Padding; no-operations should not be there.
        if *kind <= 1 {
            options = rest;
            continue;
        }
        let length = rest.first().copied().map_or(0, usize::from);
        let known = length >= 2;
        let next = options.get(length..).filter(|_| known);
        options =
            next.ok_or(Refusal { code: ErrorCode::Malformed, value: Vec::new(), why: Malformed::Length })?;
        match *kind {
            MPTCP_OPTION if length == 2 => found = true,
            kind if IGNORED_OPTIONS.contains(&kind) => {}
            kind => unsupported.push(kind),
        }
    }
    if unsupported.is_empty() {
        return Ok(found);
    }
    Err(Refusal { code: ErrorCode::UnsupportedOption, value: unsupported, why: Malformed::Value })
}

/// The refusal of a request that cannot be read or carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code for the client.
    pub code: ErrorCode,
    /// The value of the code.
    pub value: Vec<u8>,
    /// The reason.
    pub why: Malformed,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The destination is connected, and its data follows.
    Connected {
        /// Whether the destination has Multipath TCP; none if the client has not asked.
        mptcp: Option<bool>,
    },
    /// There is no connection.
    Failed {
        /// The reason, as RFC 8803 numbers it.
        code: ErrorCode,
        /// The value of the code.
        value: Vec<u8>,
    },
}

impl Reply {
    /// Returns the reply of a code without a value.
    pub fn failed(code: ErrorCode) -> Reply {
        Reply::Failed { code, value: Vec::new() }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Reply::Connected { mptcp: None } => {}
            // The options of the destination's SYN+ACK, as far as a socket shows them. // RFC 8803 section 6.2.6
            Reply::Connected { mptcp: Some(mptcp) } => {
                let option: &[u8] = if *mptcp { &[MPTCP_OPTION, 2] } else { &[] };
                writer.element(EXTENDED_HEADER, &[&[0, 0], option]);
            }
            Reply::Failed { code, value } => writer.element(ERROR, &[&[code.number()], value]),
        }
    }

    fn read(elements: &[Element<'_>]) -> Result<Reply, Malformed> {
        if let Some(error) = elements.iter().find(|element| element.kind == ERROR) {
            let (code, value) = error.value.split_first().ok_or(Malformed::Length)?;
            return Ok(Reply::Failed { code: ErrorCode::of(*code), value: value.to_vec() });
        }
        let header = elements.iter().find(|element| element.kind == EXTENDED_HEADER);
        let mptcp = header.map(|element| has_mptcp(element.value.get(2..).unwrap_or_default()));
        Ok(Reply::Connected { mptcp })
    }

    /// Returns the message without authentication: for clients that have none.
    pub fn plain(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.write(&mut writer);
        writer.finish()
    }
}

/// True if the TCP options of a server have Multipath TCP. Damaged ones have not.
fn has_mptcp(mut options: &[u8]) -> bool {
    loop {
        match options {
            [0, ..] | [] | [_] => return false,
            [1, rest @ ..] => options = rest,
            [MPTCP_OPTION, ..] => return true,
            [_, length, ..] => match options.get(usize::from(*length)..) {
                Some(rest) if *length >= 2 => options = rest,
                _ => return false,
            },
        }
    }
}

/// Returns the answer to a message that cannot be read, which has no authentication.
pub fn answer_to_malformed(message: &[u8], why: Malformed) -> Option<Reply> {
    let echo = |code| {
        // The message follows at its alignment, as far as it fits. // RFC 8803 section 6.2.8, figure 23
        let most = LONGEST - HEADER - WORD;
        let value = [&[0], &message[..message.len().min(most)]].concat();
        Reply::Failed { code, value }
    };
    match why {
        // It may be any program that has come to this port. // RFC 8803 section 6: silence
        Malformed::Magic => None,
        Malformed::Version(_) => {
            Some(Reply::Failed { code: ErrorCode::UnsupportedVersion, value: vec![VERSION] })
        }
        Malformed::Unsupported(_) => Some(echo(ErrorCode::UnsupportedMessage)),
        Malformed::Length | Malformed::Value | Malformed::Elements => Some(echo(ErrorCode::Malformed)),
    }
}

#[cfg(test)]
mod tests;

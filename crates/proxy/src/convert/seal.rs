//! Authentication of messages with the key of a client.
//!
//! The last element of a request has the client's name, its time, a nonce, and an HMAC-SHA256 over everything before the
//! code. So the destination, the options and the version cannot be changed or removed. The last element of the reply has
//! the server's time and a code over the request's code and the reply: it belongs to this request, and only a server that
//! has the key can make it. The time is the server's help for a client with a wrong clock.
//!
//! The data that follows is **not** protected: applications encrypt it (TLS, SSH), or the paths do (WireGuard).

use anabranch_scenario::policy::proxy::Key;
use anabranch_stack::crypto::equal;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::{CONNECT, COOKIE, ERROR, EXTENDED_HEADER, ErrorCode, INFO, NAME, WORD};
use super::{Element, Malformed, Refusal, Reply, Request, SUPPORTED, Writer, elements};

/// The authentication of a request: scheme, length of the name, time in milliseconds since 1970, nonce, name, code.
const REQUEST: u8 = 0xc1;
/// The authentication of a reply: scheme, zero, time, code.
const REPLY: u8 = 0xc2;
/// The only scheme.
const SCHEME: u8 = 1;
const CODE: usize = 32;
/// The bytes of a request's element before the name, without type and length.
const FIXED: usize = 2 + 8 + NONCE;
const NONCE: usize = 16;

/// Numbers that are used once.
pub type Nonce = [u8; NONCE];
/// A code of authentication.
pub type Code = [u8; CODE];

fn code(key: &Key, label: &[u8], parts: &[&[u8]]) -> Code {
    let mut mac = Hmac::<Sha256>::new(&key_block(key).into());
    mac.update(label);
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// HMAC pads a shorter key with zeros to a block.
fn key_block(key: &Key) -> [u8; 64] {
    let mut block = [0; 64];
    block[..key.0.len()].copy_from_slice(&key.0);
    block
}

const REQUEST_LABEL: &[u8] = b"anabranch proxy 1: request\0";
const REPLY_LABEL: &[u8] = b"anabranch proxy 1: reply\0";

/// Returns the message of a request, and its code.
pub fn request(request: &Request, name: &str, key: &Key, time_ms: u64, nonce: Nonce) -> (Vec<u8>, Code) {
    let mut writer = Writer::new();
    request.write(&mut writer);
    let padding = [0; WORD];
    // The code ends the message: the padding is before it.
    let padding = &padding[..(FIXED + 2 + name.len()).next_multiple_of(WORD) - (FIXED + 2 + name.len())];
    writer.element(
        REQUEST,
        &[&[SCHEME, name.len() as u8], &time_ms.to_be_bytes(), &nonce, name.as_bytes(), padding, &[0; CODE]],
    );
    sealed(writer.finish(), |bytes| code(key, REQUEST_LABEL, &[bytes]))
}

/// Replaces the last bytes of a message by the code over the bytes before.
fn sealed(mut message: Vec<u8>, code: impl Fn(&[u8]) -> Code) -> (Vec<u8>, Code) {
    let at = message.len().saturating_sub(CODE);
    let code = code(&message[..at]);
    message[at..].copy_from_slice(&code);
    (message, code)
}

/// A request before its authentication is checked.
#[derive(Clone, Debug)]
pub struct Unverified<'a> {
    message: &'a [u8],
    elements: Vec<Element<'a>>,
    /// The name of the client.
    pub name: &'a str,
    /// The time of the client.
    pub time_ms: u64,
    /// Random bytes; a second request with the same ones is a replay.
    pub nonce: Nonce,
    /// The HMAC-SHA256 to compare, over everything before it.
    pub code: Code,
}

impl<'a> Unverified<'a> {
    /// Reads the message of a request. None if it has no authentication.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn parse(message: &'a [u8]) -> Result<Option<Unverified<'a>>, Malformed> {
        let mut elements = elements(message)?;
        for element in &elements {
            match element.kind {
                CONNECT | NAME | REQUEST | COOKIE => {}
                // Types of the protocol that no client has to send. // RFC 8803 section 6.2.2
                INFO | EXTENDED_HEADER | SUPPORTED | ERROR | REPLY => {
                    return Err(Malformed::Unsupported(element.kind));
                }
                kind => return Err(Malformed::Unsupported(kind)),
            }
        }
        let Some(last) = elements.pop_if(|element| element.kind == REQUEST) else { return Ok(None) };
        if elements.iter().any(|element| element.kind == REQUEST) {
            return Err(Malformed::Elements);
        }
        let (fixed, rest) = last.value.split_first_chunk::<FIXED>().ok_or(Malformed::Length)?;
        let (padded, code) = rest.split_last_chunk::<CODE>().ok_or(Malformed::Length)?;
        let length = usize::from(fixed[1]);
        let name = padded.get(..length).and_then(|name| std::str::from_utf8(name).ok());
        if fixed[0] != SCHEME || padded.len() >= length + WORD {
            return Err(Malformed::Value);
        }
        Ok(Some(Unverified {
            message,
            elements,
            name: name.ok_or(Malformed::Value)?,
            time_ms: u64::from_be_bytes(fixed[2..10].try_into().unwrap_or_default()),
            nonce: fixed[10..].try_into().unwrap_or_default(),
            code: *code,
        }))
    }

    /// True if it was made with this key.
    pub fn is_of(&self, key: &Key) -> bool {
        let signed = &self.message[..self.message.len() - CODE];
        equal(&code(key, REQUEST_LABEL, &[signed]), &self.code)
    }

    /// Returns the request.
    ///
    /// # Errors
    /// If it cannot be carried out.
    pub fn request(&self) -> Result<Request, Refusal> {
        if self.elements.iter().any(|element| element.kind == COOKIE) {
            // No cookie was given out. // RFC 8803 section 6.2.7
            return Err(Refusal { code: ErrorCode::NotAuthorized, value: Vec::new(), why: Malformed::Value });
        }
        Request::read(&self.elements)
    }
}

/// Returns the message of a reply to the request with code `request`.
pub fn reply(reply: &Reply, key: &Key, request: &Code, time_ms: u64) -> Vec<u8> {
    let mut writer = Writer::new();
    reply.write(&mut writer);
    // A value that leaves no space for the authentication is left out.
    if writer.0.len() + 2 + 2 + 8 + CODE > super::LONGEST
        && let Reply::Failed { code, .. } = reply
    {
        writer = Writer::new();
        Reply::failed(*code).write(&mut writer);
    }
    writer.element(REPLY, &[&[SCHEME, 0], &time_ms.to_be_bytes(), &[0; CODE]]);
    sealed(writer.finish(), |bytes| code(key, REPLY_LABEL, &[request, bytes])).0
}

/// A reply, as a client has received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The answer; believe it only if `time_ms` is there.
    pub reply: Reply,
    /// The time of the server; none if the reply is not authentic, so that it must not be believed.
    pub time_ms: Option<u64>,
}

/// Reads the message of a reply to the request with code `request`.
///
/// # Errors
/// If it cannot be read, or has a wrong code.
pub fn read_reply(message: &[u8], key: &Key, request: &Code) -> Result<Received, Malformed> {
    let elements = elements(message)?;
    let reply = Reply::read(&elements)?;
    let Some(last) = elements.last().filter(|element| element.kind == REPLY) else {
        return Ok(Received { reply, time_ms: None });
    };
    let (fixed, found) = last.value.split_first_chunk::<10>().ok_or(Malformed::Length)?;
    let found = found.first_chunk::<CODE>().filter(|_| found.len() == CODE).ok_or(Malformed::Length)?;
    let signed = &message[..message.len() - CODE];
    if fixed[0] != SCHEME || !equal(&code(key, REPLY_LABEL, &[request, signed]), found) {
        return Err(Malformed::Value);
    }
    let time_ms = u64::from_be_bytes(fixed[2..].try_into().unwrap_or_default());
    Ok(Received { reply, time_ms: Some(time_ms) })
}

//! Messages of SOCKS 5 (RFC 1928) and its authentication by name and password (RFC 1929), read from the bytes so far.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Read, Wrong};
use crate::convert::{Destination, Host};
use crate::failure::Failure;

/// The version, the first byte of a connection.
pub(crate) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const PASSWORD: u8 = 2;
const NONE_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;
const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;

/// The methods of authentication that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Methods {
    none: bool,
    password: bool,
}

impl Methods {
    /// Returns the answer, and whether a name and a password follow; none if no method is acceptable.
    pub(super) fn answer(self, users: bool) -> ([u8; 2], Option<bool>) {
        match (users, self) {
            (false, Methods { none: true, .. }) => ([VERSION, NO_AUTHENTICATION], Some(false)),
            // A client may send a name only, for the rules of a policy.
            (_, Methods { password: true, .. }) => ([VERSION, PASSWORD], Some(true)),
            _ => ([VERSION, NONE_ACCEPTABLE], None),
        }
    }
}

/// Reads the first message.
pub(crate) fn greeting(bytes: &[u8]) -> Read<Methods> {
    let [version, count, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(Wrong::Version(*version));
    }
    let count = usize::from(*count);
    let Some(methods) = rest.get(..count) else { return Ok(None) };
    let has = |method: u8| methods.contains(&method);
    Ok(Some((Methods { none: has(NO_AUTHENTICATION), password: has(PASSWORD) }, 2 + count)))
}

/// Reads a name and a password.
pub(crate) fn credentials(bytes: &[u8]) -> Read<(String, String)> {
    let [version, length, rest @ ..] = bytes else { return Ok(None) };
    // RFC 1929: the version of this exchange is 1.
    if *version != 1 {
        return Err(Wrong::Version(*version));
    }
    let length = usize::from(*length);
    let (Some(name), Some(second)) = (rest.get(..length), rest.get(length)) else { return Ok(None) };
    let start = length + 1;
    let Some(password) = rest.get(start..start + usize::from(*second)) else { return Ok(None) };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Wrong::Credentials);
    Ok(Some(((text(name)?, text(password)?), 2 + start + usize::from(*second))))
}

/// Returns the answer to a name and a password.
pub(super) fn credentials_answer(right: bool) -> [u8; 2] {
    [1, u8::from(!right)]
}

/// Reads a request.
pub(crate) fn request(bytes: &[u8]) -> Read<Destination> {
    let [version, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    if *version != VERSION {
        return Err(Wrong::Version(*version));
    }
    if *command != CONNECT {
        return Err(Wrong::Command(*command));
    }
    let (host, length) = match *kind {
        V4 => match rest.first_chunk::<4>() {
            Some(ip) => (Host::Address(IpAddr::V4(Ipv4Addr::from(*ip))), 4),
            None => return Ok(None),
        },
        V6 => match rest.first_chunk::<16>() {
            Some(ip) => (Host::Address(IpAddr::V6(Ipv6Addr::from(*ip)).to_canonical()), 16),
            None => return Ok(None),
        },
        NAME => {
            let Some((length, rest)) = rest.split_first() else { return Ok(None) };
            let length = usize::from(*length);
            let Some(name) = rest.get(..length) else { return Ok(None) };
            let name = std::str::from_utf8(name).map_err(|_| Wrong::Destination)?;
            // Some clients send an address as a name.
            let host = Destination::new(name, 1).ok_or(Wrong::Destination)?.host;
            (host, 1 + length)
        }
        other => return Err(Wrong::AddressKind(other)),
    };
    let Some(port) = rest.get(length..length + 2) else { return Ok(None) };
    let port = u16::from_be_bytes([port[0], port[1]]);
    if port == 0 {
        return Err(Wrong::Destination);
    }
    Ok(Some((Destination { host, port }, 4 + length + 2)))
}

/// Returns the answer to a request. It has no address, because an application needs none.
pub(super) fn answer(code: u8) -> Vec<u8> {
    vec![VERSION, code, 0, V4, 0, 0, 0, 0, 0, 0]
}

/// Returns the code of a failure. // RFC 1928 section 6
pub(super) fn code_of(failure: &Failure) -> u8 {
    match failure {
        Failure::Refused(_) => 2,
        Failure::Unreachable(_) => 4,
        Failure::ConnectionRefused(_) => 5,
        Failure::Server(_) | Failure::Busy(_) => 1,
    }
}

/// Returns the code for a request that is not carried out.
pub(super) fn code_of_wrong(wrong: &Wrong) -> Option<u8> {
    match wrong {
        Wrong::Command(_) => Some(7),
        Wrong::AddressKind(_) => Some(8),
        Wrong::Destination => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_once_they_are_complete() {
        let greeted = [5, 2, 0, 2, 9];
        let named = [&[5, 1, 0, 3, 11][..], b"example.org", &[1, 187]].concat();
        let v6 = [&[5, 1, 0, 4][..], &[0x20; 16], &[0, 80]].concat();
        let secret = [&[1, 5][..], b"alice", &[3], b"abc"].concat();
        for end in 0..4 {
            assert_eq!(greeting(&greeted[..end]), Ok(None));
        }
        assert_eq!(greeting(&greeted).unwrap().unwrap().1, 4);
        for end in 0..named.len() {
            assert_eq!(request(&named[..end]), Ok(None));
        }
        let (to, length) = request(&named).unwrap().unwrap();
        assert_eq!((to.to_string().as_str(), length), ("example.org:443", named.len()));
        assert_eq!(request(&v6).unwrap().unwrap().0.port, 80);
        for end in 0..secret.len() {
            assert_eq!(credentials(&secret[..end]), Ok(None));
        }
        let (found, length) = credentials(&secret).unwrap().unwrap();
        assert_eq!((found, length), (("alice".to_owned(), "abc".to_owned()), secret.len()));
    }

    #[test]
    fn other_commands_are_refused_by_their_number() {
        for command in [2, 3, 0, 9] {
            let wrong = request(&[5, command, 0, 1, 1, 2, 3, 4, 0, 80]).unwrap_err();
            assert_eq!((&wrong, code_of_wrong(&wrong)), (&Wrong::Command(command), Some(7)));
        }
        assert_eq!(request(&[5, 1, 0, 2]), Err(Wrong::AddressKind(2)));
        assert_eq!(request(&[4, 1, 0, 1]), Err(Wrong::Version(4)));
        assert_eq!(request(&[5, 1, 0, 1, 1, 2, 3, 4, 0, 0]), Err(Wrong::Destination));
        assert_eq!(request(&[5, 1, 0, 3, 3, b'a', b' ', b'b', 0, 1]), Err(Wrong::Destination));
    }

    #[test]
    fn a_password_is_asked_for_where_there_are_users() {
        let both = Methods { none: true, password: true };
        let none = Methods { none: true, password: false };
        assert_eq!(both.answer(true), ([5, 2], Some(true)));
        assert_eq!(both.answer(false), ([5, 0], Some(false)));
        assert_eq!(none.answer(true), ([5, 0xff], None));
    }
}

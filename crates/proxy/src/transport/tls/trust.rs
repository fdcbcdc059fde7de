//! The servers that a client accepts: by a pin of their key, or by the certificate authorities of the system.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, PeerIncompatible,
    RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};

use super::provider;

/// The SHA-256 of the public key of a certificate, in its SubjectPublicKeyInfo form. // RFC 7469 section 2.4
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKeyPin(pub [u8; 32]);

impl PublicKeyPin {
    /// Returns the pin of a public key as DER.
    pub(super) fn of_key(info: &[u8]) -> PublicKeyPin {
        PublicKeyPin(Sha256::digest(info).into())
    }

    /// Returns the pin of a certificate.
    pub(super) fn of_certificate(certificate: &CertificateDer<'_>) -> Result<PublicKeyPin, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        Ok(PublicKeyPin::of_key(parsed.subject_public_key_info().as_ref()))
    }
}

impl fmt::Display for PublicKeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKeyPin {
    type Err = String;

    fn from_str(text: &str) -> Result<PublicKeyPin, String> {
        let digits = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        let digit = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
        let bytes = digits.chunks(2).map(|two| match two {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(PublicKeyPin).ok_or_else(|| {
            format!(
                "`{text}` is no pin; write `sha256:` and 64 hexadecimal digits, as the server side prints them when it starts"
            )
        })
    }
}

/// The servers that a client accepts.
#[derive(Clone, Debug)]
pub struct Trust {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Trust {
    /// Accepts a server at the host `name` with one of these public keys. Names and dates of its certificate do not count.
    ///
    /// # Errors
    /// If `name` is neither a name nor an address.
    pub fn pinned(name: &str, pins: Vec<PublicKeyPin>) -> Result<Trust, String> {
        let algorithms = provider().signature_verification_algorithms;
        Trust::new(name, |builder| {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Pinned { pins, algorithms }))
        })
    }

    /// Accepts a server with a certificate for `name` that a certificate authority of this system has signed.
    ///
    /// # Errors
    /// If the system has no certificate authorities, or `name` is neither a name nor an address.
    pub fn system(name: &str) -> Result<Trust, String> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
            return Err(format!(
                "this system has no certificate authorities{why}; install them (Debian: apt install ca-certificates), or give \
                 the server's key with --pin"
            ));
        }
        Trust::by_roots(name, roots)
    }

    pub(super) fn by_roots(name: &str, roots: RootCertStore) -> Result<Trust, String> {
        Trust::new(name, |builder| builder.with_root_certificates(roots))
    }

    fn new(
        name: &str,
        verify: impl FnOnce(
            rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
        ) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>,
    ) -> Result<Trust, String> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("`{name}` is neither a name nor an address that a certificate can have"))?;
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|error| error.to_string())?;
        let mut config = verify(builder).with_no_client_auth();
        // Data before the handshake could be replayed.
        config.enable_early_data = false;
        Ok(Trust { config: Arc::new(config), name })
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    pub(super) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }
}

/// Accepts public keys.
#[derive(Debug)]
struct Pinned {
    pins: Vec<PublicKeyPin>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The server has another key.
#[derive(Debug)]
struct WrongPin(PublicKeyPin);

impl fmt::Display for WrongPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its public key is not the pinned one, but {}: somebody may be in between. If you have replaced its certificate, \
             compare with the pin that it prints when it starts, and give that with --pin",
            self.0
        )
    }
}

impl std::error::Error for WrongPin {}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = PublicKeyPin::of_certificate(end_entity)?;
        if self.pins.contains(&found) {
            return Ok(ServerCertVerified::assertion());
        }
        let wrong = CertificateError::Other(OtherError(Arc::new(WrongPin(found))));
        Err(Error::InvalidCertificate(wrong))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    /// Checks that the server has the private key.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns the reason that a handshake has failed, with a remedy.
pub(super) fn words(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(why)) => certificate_words(why),
        Some(Error::InvalidMessage(_)) => {
            "it does not speak TLS; start it with --tls, or leave --tls out here if the network between is trusted".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("it has refused the TLS handshake ({alert:?})"),
        Some(other) => format!("TLS handshake: {other}"),
        None if is_end(error) => {
            "it has ended the connection in the TLS handshake; check that it runs with --tls".to_owned()
        }
        None => format!("TLS handshake: {error}"),
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn certificate_words(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it, and check the clock of this host".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clock of this host".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; give --to a name that the certificate has, or the server's key with --pin"
                .to_owned()
        }
        CertificateError::UnknownIssuer => {
            "no certificate authority of this system has signed its certificate; for a self-signed one give the server's key \
             with --pin"
                .to_owned()
        }
        CertificateError::Other(other) => match other.0.downcast_ref::<WrongPin>() {
            Some(wrong) => wrong.to_string(),
            None => format!("its certificate is not valid: {other}"),
        },
        other => format!("its certificate is not valid: {other}"),
    }
}

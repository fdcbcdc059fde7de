//! The certificate and the private key of a server.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use tokio_rustls::TlsAcceptor;

use super::{PublicKeyPin, provider};
use crate::status::lock;

/// The certificate and the private key of a server, which can be replaced while it runs. Clones are the same.
#[derive(Clone)]
pub struct Identity {
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("pin", &self.pin()).finish_non_exhaustive()
    }
}

/// The key of new connections.
#[derive(Debug)]
struct Current(Mutex<(Arc<CertifiedKey>, PublicKeyPin)>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&lock(&self.0).0))
    }
}

impl Identity {
    /// Reads the certificate, with the certificates of its authorities if it has any, and the private key, as PEM. Both may
    /// be in one file.
    ///
    /// # Errors
    /// The file and the reason, with a remedy.
    pub fn open(certificate: &Path, private_key: &Path) -> Result<Identity, String> {
        let current = Arc::new(Current(Mutex::new(read(certificate, private_key)?)));
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]);
        let builder = builder.map_err(|error| error.to_string())?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::<Current>::clone(&current));
        // Data before the handshake could be replayed.
        config.max_early_data_size = 0;
        Ok(Identity { current, config: Arc::new(config) })
    }

    /// Reads the files again, for new connections.
    ///
    /// # Errors
    /// As for `open`; then the old ones stay.
    pub fn renew(&self, certificate: &Path, private_key: &Path) -> Result<(), String> {
        let new = read(certificate, private_key)?;
        *lock(&self.current.0) = new;
        Ok(())
    }

    /// Returns the pin of the public key.
    pub fn pin(&self) -> PublicKeyPin {
        lock(&self.current.0).1
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Takes the private key of another one, as a server that has the certificate only.
    #[cfg(test)]
    pub(super) fn swap_key(&mut self, other: &Identity) {
        let mut current = lock(&self.current.0);
        let key = Arc::clone(&lock(&other.current.0).0.key);
        current.0 = Arc::new(CertifiedKey::new(current.0.cert.clone(), key));
    }

    #[cfg(test)]
    pub(super) fn config(&self) -> &ServerConfig {
        &self.config
    }
}

fn read(certificate: &Path, private_key: &Path) -> Result<(Arc<CertifiedKey>, PublicKeyPin), String> {
    let at = |path: &Path, why: String| format!("{}: {why}", path.display());
    let bytes = |path: &Path| std::fs::read(path).map_err(|error| at(path, error.to_string()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes(certificate)?).collect();
    let chain = chain.map_err(|error| at(certificate, format!("this is no certificate as PEM: {error}")))?;
    let Some(first) = chain.first() else {
        let why = "there is no certificate in it (`-----BEGIN CERTIFICATE-----`); `anabranch proxy --new-certificate \
                   NAME` makes one";
        return Err(at(certificate, why.to_owned()));
    };
    let pin = PublicKeyPin::of_certificate(first)
        .map_err(|error| at(certificate, format!("its certificate cannot be read: {error}")))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes(private_key)?).map_err(|error| {
        at(
            private_key,
            format!("there is no private key as PEM in it ({error}); give its file with --private-key"),
        )
    })?;
    let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => at(
            private_key,
            format!("its private key does not belong to the certificate in {}", certificate.display()),
        ),
        error => at(private_key, format!("its private key cannot be used: {error}")),
    })?;
    Ok((Arc::new(key), pin))
}

/// Makes a key and a certificate for the host `name`, signed by itself. Returns both as one text of PEM, which begins with
/// the pin as a comment, and the pin.
///
/// # Errors
/// If `name` cannot be in a certificate.
pub fn new_certificate(name: &str) -> Result<(String, PublicKeyPin), String> {
    let wrong = |error: rcgen::Error| {
        format!(
            "cannot make a certificate for `{name}`: {error}; give the name or the address of the server side"
        )
    };
    if name.is_empty() || rustls::pki_types::ServerName::try_from(name).is_err() {
        return Err(format!("`{name}` is no name of a host; write for example server.example"));
    }
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).map_err(wrong)?;
    let mut params = CertificateParams::new([name.to_owned()]).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).map_err(wrong)?;
    let pin = PublicKeyPin::of_key(&key.subject_public_key_info());
    let text = format!("# {name}, --pin {pin}\n{}{}", certificate.pem(), key.serialize_pem());
    Ok((text, pin))
}

//! TLS of a server: its certificate and key, which can be reloaded.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use pgwire::api::auth::sasl::scram::ScramServerAuth;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use terrace_sys::sync::{read, write};
use tokio_rustls::TlsAcceptor;

/// Permission bits that a key's file must not have: write and execute for its group, and all for
/// other users.
const OTHERS: u32 = 0o027;

/// Name of PostgreSQL's protocol in the negotiation of TLS (ALPN).
pub(crate) const POSTGRESQL: &[u8] = b"postgresql";

/// Errors of a certificate or key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A key whose file other users may read, or its group may change.
    #[error("{0}: others may read the key; say chmod 600 {0}")]
    Exposed(PathBuf),
    /// A file with the wrong content.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
}

/// Certificate and key of a server.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

/// Contents of both files when they were last read.
#[derive(Clone)]
pub(crate) struct Current {
    /// Acceptor for clients of PostgreSQL's protocol, which request it by name (ALPN) or request
    /// none.
    pub(crate) postgresql: TlsAcceptor,
    /// Acceptor for HTTP/2 clients, which request it by name (ALPN).
    pub(crate) http2: TlsAcceptor,
    /// SCRAM authentication bound to the certificate.
    pub(crate) scram: ScramServerAuth,
}

impl Tls {
    /// Reads a chain of certificates and the key of the first one, both in PEM.
    ///
    /// # Errors
    /// A file that cannot be read or has the wrong content, and a key that other users may read.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let current = RwLock::new(read_files(certificate, key)?);
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reads both files again. Open connections keep the certificate that they have.
    ///
    /// # Errors
    /// As [`Tls::open`]; then the certificate stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let current = read_files(&self.certificate, &self.key)?;
        *write(&self.current) = current;
        Ok(())
    }

    /// Returns the certificate as it was last read.
    pub(crate) fn current(&self) -> Current {
        read(&self.current).clone()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

fn read_files(certificate: &Path, key: &Path) -> Result<Current, TlsError> {
    let pem = bytes_of(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| content(certificate, &error))?;
    if chain.is_empty() {
        return Err(content(certificate, &"it holds no certificate in PEM"));
    }
    let failed = |source| TlsError::Read { path: key.to_owned(), source };
    let mode = std::fs::metadata(key).map_err(failed)?.permissions().mode();
    if mode & OTHERS != 0 {
        return Err(TlsError::Exposed(key.to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&bytes_of(key)?);
    let private = private.map_err(|error| content(key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| content(key, &error))?;
    let mut scram = ScramServerAuth::new();
    if let Err(error) = scram.configure_certificate(&pem) {
        // For example an Ed25519 certificate: RFC 5929 names no hash for it.
        tracing::info!(%error, "logins are not bound to the certificate");
    }
    let acceptor = |protocol: &[u8]| {
        let mut config = config.clone();
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    };
    Ok(Current { postgresql: acceptor(POSTGRESQL), http2: acceptor(b"h2"), scram })
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn content(path: &Path, what: &impl fmt::Display) -> TlsError {
    TlsError::Content { path: path.to_owned(), what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tried = Result<(), Box<dyn std::error::Error>>;

    fn written(directory: &Path) -> Result<(PathBuf, PathBuf), Box<dyn std::error::Error>> {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        std::fs::write(&certificate, pair.cert.pem())?;
        std::fs::write(&key, pair.signing_key.serialize_pem())?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
        Ok((certificate, key))
    }

    #[test]
    fn a_certificate_is_read_and_read_again() -> Tried {
        let directory = tempfile::tempdir()?;
        let (certificate, key) = written(directory.path())?;
        let tls = Tls::open(&certificate, &key)?;
        assert!(tls.current().scram.supports_channel_binding());
        std::fs::write(&certificate, "none")?;
        assert!(matches!(tls.reload(), Err(TlsError::Content { .. })));
        let _still_there = tls.current();
        Ok(())
    }

    #[test]
    fn keys_that_others_may_read_are_refused() -> Tried {
        let directory = tempfile::tempdir()?;
        let (certificate, key) = written(directory.path())?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644))?;
        assert!(matches!(Tls::open(&certificate, &key), Err(TlsError::Exposed(_))));
        let missing = directory.path().join("none.pem");
        assert!(matches!(Tls::open(&missing, &key), Err(TlsError::Read { .. })));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
        assert!(matches!(Tls::open(&key, &key), Err(TlsError::Content { .. })));
        Ok(())
    }
}

//! TLS from the first byte (`sslnegotiation=direct` of libpq 17), and the name of the protocol in
//! the negotiation of TLS (ALPN).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::logins::Served;

const POSTGRESQL: &[&str] = &["postgresql"];

/// Runs the handshake of TLS, naming protocols.
async fn secured(
    served: &Served,
    stream: TcpStream,
    protocols: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let pem = std::fs::read(served.directory.path().join("cert.pem")).expect("a certificate");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.expect("in PEM")).expect("a root");
    }
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

async fn connected(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connected")
}

/// Returns the name of the protocol that the server has chosen.
fn chosen(stream: &TlsStream<TcpStream>) -> Option<&[u8]> {
    stream.get_ref().1.alpn_protocol()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_may_come_first() {
    let served = Served::start(true, true).await;
    let stream = connected(served.running.address).await;
    let stream = secured(&served, stream, POSTGRESQL).await.expect("a handshake");
    assert_eq!(chosen(&stream), Some(&b"postgresql"[..]));
    let mut config = Config::new();
    config.user("ada").password("pencil").dbname("main").ssl_mode(SslMode::Disable);
    let (client, connection) = config.connect_raw(stream, NoTls).await.expect("logged in");
    tokio::spawn(connection);
    let user = client.query_one("SELECT current_user", &[]).await.expect("a row");
    assert_eq!(user.get::<_, String>(0), "ada");
    drop(client);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_comes_first_names_the_protocol() {
    let served = Served::start(true, true).await;
    // Another protocol ends the handshake, none the connection after it.
    let stream = connected(served.running.address).await;
    assert!(secured(&served, stream, &["h2", "http/1.1"]).await.is_err());
    let stream = connected(served.running.address).await;
    let mut stream = secured(&served, stream, &[]).await.expect("a handshake");
    let mut told = Vec::new();
    stream.read_to_end(&mut told).await.expect("an error, and the end");
    let text = String::from_utf8_lossy(&told);
    assert!(text.starts_with('E') && text.contains("C08P01\0"), "{text:?}");
    assert!(text.contains("sslnegotiation=postgres"), "{text:?}");
    served.end().await;
    // A server without a certificate.
    let (served, other) = (Served::start(false, false).await, Served::start(true, false).await);
    let stream = connected(served.running.address).await;
    assert!(secured(&other, stream, POSTGRESQL).await.is_err());
    served.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_after_its_request_may_name_the_protocol() {
    let served = Served::start(true, true).await;
    let protocols: [(&[&str], Option<&[u8]>); 2] = [(POSTGRESQL, Some(b"postgresql")), (&[], None)];
    for (offered, wanted) in protocols {
        let mut stream = connected(served.running.address).await;
        stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).await.expect("sent");
        assert_eq!(stream.read_u8().await.expect("an answer"), b'S');
        let stream = secured(&served, stream, offered).await.expect("a handshake");
        assert_eq!(chosen(&stream), wanted);
        let mut config = Config::new();
        config.user("ada").password("pencil").dbname("main").ssl_mode(SslMode::Disable);
        let (client, connection) = config.connect_raw(stream, NoTls).await.expect("logged in");
        tokio::spawn(connection);
        client.batch_execute("SELECT 1").await.expect("a statement");
    }
    served.end().await;
}

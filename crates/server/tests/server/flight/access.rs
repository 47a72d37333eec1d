//! Logins, tokens, TLS and the limit of connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt as _};
use arrow_flight::{Action, FlightDescriptor, HandshakeRequest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, stream};
use prost::Message as _;
use terrace_server::{FlightListener, Limits, Server, ServerError, Tls};
use terrace_sql::Engine;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};

use super::{Client, Flight, integers, refused, texts, update};
use crate::logins::certificate_in;
use crate::running::engine;

async fn engine_with_roles() -> Engine {
    let engine = engine();
    let session = engine.session().expect("a session");
    let text = "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'secret'; \
                CREATE ROLE ada LOGIN PASSWORD 'pencil'; CREATE ROLE nologin; \
                CREATE TABLE t AS SELECT 1::bigint AS x";
    session.sql(text).await.expect("made");
    engine
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Returns the status code of a query with this header.
async fn code_with(flight: &Flight, header: Option<&str>) -> Code {
    let mut client = FlightServiceClient::new(flight.channel().await);
    let query = CommandStatementQuery { query: "SELECT 1".to_owned(), transaction_id: None };
    let mut request = Request::new(FlightDescriptor::new_cmd(query.as_any().encode_to_vec()));
    if let Some(header) = header {
        request.metadata_mut().insert("authorization", header.parse().expect("a header"));
    }
    client.get_flight_info(request).await.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_log_in_by_a_handshake() {
    let flight = Flight::over(engine_with_roles().await, Limits::default(), None).await;
    let mut client = flight.connect().await;
    let without = refused(&mut client, "SELECT 1").await;
    assert!(without.contains("28000"), "{without}");
    client.handshake("ada", "pencil").await.expect("logged in");
    assert_eq!(texts(&mut client, "SELECT current_user").await, ["ada"]);
    let denied = refused(&mut client, "SELECT x FROM t").await;
    assert!(denied.contains("42501"), "{denied}");
    let mut admin = flight.connect().await;
    admin.handshake("admin", "secret").await.expect("logged in");
    update(&mut admin, "GRANT SELECT ON t TO ada").await;
    assert_eq!(integers(&mut client, "SELECT x FROM t").await, [1]);
    // The token identifies the session, whichever connection it is sent on.
    update(&mut client, "SET application_name = 'mine'").await;
    let mut second = flight.connect().await;
    second.set_token(client.token().expect("a token").clone());
    assert_eq!(texts(&mut second, "SHOW application_name").await, ["mine"]);
    second.set_token("0".repeat(64));
    let unknown = refused(&mut second, "SELECT 1").await;
    assert!(unknown.contains("log in again"), "{unknown}");
    let close = Action { r#type: "CloseSession".to_owned(), body: Default::default() };
    let told: Vec<_> = client.do_action(close).await.expect("closed").collect().await;
    assert_eq!(told[0].as_ref().expect("a result").body.as_ref(), [8, 1]);
    let closed = refused(&mut client, "SELECT 1").await;
    assert!(closed.contains("28000"), "{closed}");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_passwords_and_missing_roles_fail_alike() {
    let flight = Flight::over(engine_with_roles().await, Limits::default(), None).await;
    let mut shortest = [f64::MAX; 2];
    for (user, password) in [("ada", "wrong"), ("nosuch", "pencil"), ("nologin", "")] {
        let mut client = FlightServiceClient::new(flight.channel().await);
        let mut request = Request::new(stream::iter([HandshakeRequest::default()]));
        let header = basic(user, password).parse().expect("a header");
        request.metadata_mut().insert("authorization", header);
        let began = Instant::now();
        let status = client.handshake(request).await.expect_err("refused");
        let took = began.elapsed().as_secs_f64();
        let at = usize::from(user != "ada");
        shortest[at] = shortest[at].min(took);
        assert_eq!(status.code(), Code::Unauthenticated);
        let text = format!("password authentication failed for user {user:?} (SQLSTATE 28P01)");
        assert_eq!(status.message(), text);
    }
    assert!(shortest.iter().all(|took| *took > 0.2), "{shortest:?}");
    assert!((shortest[0] - shortest[1]).abs() < 0.1, "{shortest:?}");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_with_each_call_will_do() {
    let flight = Flight::over(engine_with_roles().await, Limits::default(), None).await;
    let right = basic("ada", "pencil");
    assert_eq!(code_with(&flight, Some(&right)).await, Code::Ok);
    let mut client = flight.connect().await;
    client.set_header("authorization", right);
    update(&mut client, "SET application_name = 'mine'").await;
    assert_eq!(texts(&mut client, "SHOW application_name").await, ["mine"]);
    let wrong = [basic("ada", "pencils"), "Basic !".to_owned(), "Bearer x".to_owned()];
    for header in wrong.iter().map(|header| Some(header.as_str())).chain([None, Some("x")]) {
        assert_eq!(code_with(&flight, header).await, Code::Unauthenticated, "{header:?}");
    }
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_come_by_tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = certificate_in(directory.path());
    let tls = Arc::new(Tls::open(&certificate, &key).expect("a certificate"));
    let limits = Limits::default();
    let flight = Flight::over(engine_with_roles().await, limits, Some(tls)).await;
    let plain = Endpoint::from_shared(format!("http://{}", flight.address)).expect("an address");
    if let Ok(channel) = plain.connect().await {
        assert!(Client::new(channel).handshake("ada", "pencil").await.is_err());
    }
    let pem = std::fs::read(&certificate).expect("read");
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
    let secure = Endpoint::from_shared(format!("https://localhost:{}", flight.address.port()));
    let secure = secure.and_then(|endpoint| endpoint.tls_config(config)).expect("an address");
    let mut client = Client::new(secure.connect().await.expect("connected"));
    client.handshake("ada", "pencil").await.expect("logged in");
    let text = "SELECT sum(value)::bigint FROM generate_series(1, 100000) AS g(value)";
    assert_eq!(integers(&mut client, text).await, [5_000_050_000]);
    flight.end().await;
}

#[tokio::test]
async fn other_machines_are_served_with_tls_and_logins_alone() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let engine = engine();
    let server = Server::new(engine.clone(), Limits::default(), None).expect("a server");
    let listener = FlightListener::tcp(everywhere, &server).await;
    assert!(matches!(listener, Err(ServerError::NoTls(_))));
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = certificate_in(directory.path());
    let tls = Some(Arc::new(Tls::open(&certificate, &key).expect("a certificate")));
    let server = Server::new(engine.clone(), Limits::default(), tls).expect("a server");
    let listener = FlightListener::tcp(everywhere, &server).await;
    assert!(matches!(listener, Err(ServerError::NoLogins(_))));
    let loopback = FlightListener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &server).await;
    let location = loopback.expect("an address").location().expect("an address");
    assert!(location.starts_with("grpc+tls://127.0.0.1:"), "{location}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_take_the_places_of_connections() {
    let limits = Limits {
        connections: 2,
        session_detached_time: Duration::from_secs(3600),
        ..Limits::default()
    };
    let flight = Flight::over(engine_with_roles().await, limits, None).await;
    let (mut first, mut second) = (flight.connect().await, flight.connect().await);
    first.handshake("ada", "pencil").await.expect("logged in");
    second.handshake("ada", "pencil").await.expect("logged in");
    assert_eq!(integers(&mut second, "SELECT 1::bigint").await, [1]);
    let mut third = flight.connect().await;
    assert!(third.handshake("ada", "pencil").await.is_err(), "there is no place");
    // A client that has left gives up its permit to the next one.
    drop(first);
    tokio::time::sleep(Duration::from_millis(300)).await;
    third.handshake("ada", "pencil").await.expect("logged in");
    assert_eq!(integers(&mut third, "SELECT 1::bigint").await, [1]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_after_their_time() {
    let limits = Limits {
        session_idle_time: Duration::from_millis(700),
        session_detached_time: Duration::from_millis(200),
        ..Limits::default()
    };
    let flight = Flight::over(engine_with_roles().await, limits, None).await;
    let mut client = flight.connect().await;
    client.handshake("admin", "secret").await.expect("logged in");
    let mut other = flight.connect().await;
    other.handshake("ada", "pencil").await.expect("logged in");
    drop(other);
    let count = "SELECT count(*) FROM pg_stat_activity";
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        integers(&mut client, count).await;
    }
    assert_eq!(integers(&mut client, count).await, [1], "the other is gone");
    tokio::time::sleep(Duration::from_millis(1600)).await;
    let idle = refused(&mut client, "SELECT 1").await;
    assert!(idle.contains("log in again"), "{idle}");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_limit_sessions() {
    let engine = engine_with_roles().await;
    let session = engine.session().expect("a session");
    let text = "CREATE TENANT one WITH (sla = 'latency 5s penalty 1 per 1s', \
                max_connections = '1'); ALTER ROLE ada TENANT one";
    session.sql(text).await.expect("made");
    drop(session);
    let flight = Flight::over(engine, Limits::default(), None).await;
    let (mut first, mut second) = (flight.connect().await, flight.connect().await);
    first.handshake("ada", "pencil").await.expect("logged in");
    let full = second.handshake("ada", "pencil").await.expect_err("full").to_string();
    assert!(full.contains("53300"), "{full}");
    flight.end().await;
}

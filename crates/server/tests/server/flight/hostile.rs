//! Malformed requests: each is refused, and the server goes on.

use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementUpdate,
    ProstMessageExt as _, TicketStatementQuery,
};
use arrow_flight::{Action, Criteria, Empty, FlightData, FlightDescriptor, Ticket};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use prost::Message as _;
use terrace_server::Limits;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::{Flight, integers};

type Raw = FlightServiceClient<Channel>;

async fn get(raw: &mut Raw, ticket: Vec<u8>) -> Result<(), Status> {
    let mut rows = raw.do_get(Ticket::new(ticket)).await?.into_inner();
    while let Some(message) = rows.next().await {
        message?;
    }
    Ok(())
}

async fn act(raw: &mut Raw, name: &str, body: Vec<u8>) -> Result<(), Status> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let mut results = raw.do_action(action).await?.into_inner();
    while let Some(message) = results.next().await {
        message?;
    }
    Ok(())
}

async fn put(raw: &mut Raw, messages: Vec<FlightData>) -> Result<(), Status> {
    let mut results = raw.do_put(stream::iter(messages)).await?.into_inner();
    while let Some(message) = results.next().await {
        message?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_that_are_none_are_refused() {
    let flight = Flight::start(Limits::default()).await;
    let mut raw = Raw::new(flight.channel().await);
    let of = |handle: &[u8]| {
        let statement_handle = Bytes::copy_from_slice(handle);
        TicketStatementQuery { statement_handle }.as_any().encode_to_vec()
    };
    let nothing = get(&mut raw, of(&[0; 8])).await;
    assert!(nothing.is_ok(), "that of a statement without rows");
    let unknown = Any { type_url: "type.googleapis.com/x".to_owned(), value: Bytes::new() };
    let tickets = [
        vec![],
        vec![0xff; 100],
        b"SELECT 1".to_vec(),
        of(b""),
        of(b"x"),
        of(&[0xff; 8]),
        of(&[0; 9]),
        unknown.encode_to_vec(),
        CommandStatementUpdate::default().as_any().encode_to_vec(),
        CommandPreparedStatementQuery { prepared_statement_handle: Bytes::from_static(b"none") }
            .as_any()
            .encode_to_vec(),
    ];
    for ticket in tickets {
        let status = get(&mut raw, ticket.clone()).await.expect_err("refused");
        assert_ne!(status.code(), Code::Unknown, "{ticket:?} {status}");
        let descriptor = FlightDescriptor::new_cmd(ticket.clone());
        assert!(raw.get_flight_info(descriptor.clone()).await.is_err(), "{ticket:?}");
        assert!(raw.get_schema(descriptor).await.is_err(), "{ticket:?}");
    }
    let mut client = flight.connect().await;
    assert_eq!(integers(&mut client, "SELECT 1::bigint").await, [1]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_that_are_none_are_refused() {
    let flight = Flight::start(Limits::default()).await;
    let mut raw = Raw::new(flight.channel().await);
    let actions = raw.list_actions(Empty {}).await.expect("actions").into_inner();
    let names: Vec<_> = actions.map(|action| action.expect("an action").r#type).collect().await;
    assert_eq!(names.len(), 12, "{names:?}");
    for name in names.iter().map(String::as_str).chain(["nosuch", ""]) {
        for body in [vec![0xff; 64], b"garbage".to_vec()] {
            let told = act(&mut raw, name, body).await;
            if !["GetSessionOptions", "CloseSession"].contains(&name) {
                let status = told.expect_err(name);
                assert_ne!(status.code(), Code::Unknown, "{name} {status}");
            }
        }
    }
    assert!(raw.list_flights(Criteria::default()).await.is_err());
    assert!(raw.poll_flight_info(FlightDescriptor::default()).await.is_err());
    let exchange = raw.do_exchange(stream::iter([FlightData::default()])).await;
    assert_eq!(exchange.expect_err("refused").code(), Code::Unimplemented);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_none_are_refused() {
    let flight = Flight::start(Limits::default()).await;
    let mut raw = Raw::new(flight.channel().await);
    let ingest = CommandStatementIngest { table: "t".to_owned(), ..Default::default() };
    let ingest = FlightDescriptor::new_cmd(ingest.as_any().encode_to_vec());
    let of = |header: &[u8], body: &[u8]| FlightData {
        flight_descriptor: Some(ingest.clone()),
        data_header: Bytes::copy_from_slice(header),
        data_body: Bytes::copy_from_slice(body),
        ..FlightData::default()
    };
    assert!(put(&mut raw, vec![]).await.is_err(), "no message");
    assert!(put(&mut raw, vec![FlightData::default()]).await.is_err(), "no descriptor");
    assert!(put(&mut raw, vec![of(b"", b"")]).await.is_err(), "no rows");
    for seed in 0..200_u8 {
        let bytes: Vec<u8> = (0..seed).map(|at| at.wrapping_mul(seed) ^ seed).collect();
        assert!(put(&mut raw, vec![of(&bytes, &bytes)]).await.is_err(), "{seed}");
    }
    let mut client = flight.connect().await;
    assert_eq!(integers(&mut client, "SELECT 1::bigint").await, [1]);
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_are_closed() {
    let login_time = Duration::from_millis(300);
    let flight = Flight::start(Limits { login_time, ..Limits::default() }).await;
    let mut client = flight.connect().await;
    assert_eq!(integers(&mut client, "SELECT 1::bigint").await, [1]);
    let mut silent = TcpStream::connect(flight.address).await.expect("connected");
    let mut answer = Vec::new();
    let closed = timeout(Duration::from_secs(5), silent.read_to_end(&mut answer)).await;
    assert!(closed.is_ok(), "it is closed");
    assert_eq!(integers(&mut client, "SELECT 2::bigint").await, [2], "the other goes on");
    flight.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_have_a_limit() {
    let flight = Flight::start(Limits { message_bytes: 1 << 20, ..Limits::default() }).await;
    let mut raw = Raw::new(flight.channel().await);
    let long = FlightDescriptor::new_cmd(vec![0; 2 << 20]);
    let status = raw.get_flight_info(long).await.expect_err("too long");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    let mut client = flight.connect().await;
    assert_eq!(integers(&mut client, "SELECT 1::bigint").await, [1]);
    flight.end().await;
}

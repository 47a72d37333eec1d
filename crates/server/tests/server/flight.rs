//! Arrow Flight SQL clients.

mod access;
mod changes;
mod ends;
mod hostile;
mod metadata;
mod queries;

use std::net::SocketAddr;
use std::sync::Arc;

use arrow_flight::error::FlightError;
use arrow_flight::sql::CommandStatementIngest;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{TableDefinitionOptions, TableExistsOption, TableNotExistOption};
use arrow_flight::{FlightInfo, Ticket};
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use futures::TryStreamExt as _;
use terrace_server::{FlightListener, Limits, Server, Tls};
use terrace_sql::Engine;
use tonic::transport::{Channel, Endpoint};

use crate::running::{Running, engine};

pub type Client = FlightSqlServiceClient<Channel>;

/// A server that also serves Flight SQL.
pub struct Flight {
    pub running: Running,
    pub address: SocketAddr,
}

impl Flight {
    pub async fn start(limits: Limits) -> Self {
        Self::over(engine(), limits, None).await
    }

    pub async fn over(engine: Engine, limits: Limits, tls: Option<Arc<Tls>>) -> Self {
        let server = Server::new(engine.clone(), limits, tls).expect("a server");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = FlightListener::tcp(any, &server).await.expect("an address");
        let address = listener.address().expect("an address");
        let running = Running::of(engine, server.with_flight(listener)).await;
        Self { running, address }
    }

    pub async fn connect(&self) -> Client {
        Client::new(self.channel().await)
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
        endpoint.expect("an address").connect().await.expect("connected")
    }

    /// Shuts the server down and checks that it releases the engine.
    pub async fn end(self) {
        self.running.end().await.close().expect("the engine is free");
    }
}

/// Returns the ticket of a flight.
pub fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().expect("a ticket")
}

/// Returns the rows of a flight.
pub async fn fetch(
    client: &mut Client,
    info: &FlightInfo,
) -> Result<Vec<RecordBatch>, FlightError> {
    client.do_get(ticket(info)).await?.try_collect().await
}

/// Returns the rows of a query.
pub async fn query(client: &mut Client, text: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(text.to_owned(), None).await?;
    fetch(client, &info).await
}

/// Returns the integers in a query's first column.
pub async fn integers(client: &mut Client, text: &str) -> Vec<i64> {
    integers_of(&query(client, text).await.expect("rows"))
}

pub fn integers_of(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
    columns.flat_map(|column| column.values().to_vec()).collect()
}

/// Returns the texts in a query's first column.
pub async fn texts(client: &mut Client, text: &str) -> Vec<String> {
    texts_of(&query(client, text).await.expect("rows"))
}

pub fn texts_of(batches: &[RecordBatch]) -> Vec<String> {
    let columns = batches.iter().map(|batch| batch.column(0).as_string::<i32>());
    columns.flat_map(|column| column.iter().flatten().map(str::to_owned)).collect()
}

pub async fn update(client: &mut Client, text: &str) -> i64 {
    let changed = client.execute_update(text.to_owned(), None).await;
    changed.unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the error of a statement.
pub async fn refused(client: &mut Client, text: &str) -> String {
    query(client, text).await.expect_err(text).to_string()
}

pub fn ingestion(
    table: &str,
    exists: TableExistsOption,
    not_exist: TableNotExistOption,
) -> CommandStatementIngest {
    CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_exists: exists.into(),
            if_not_exist: not_exist.into(),
        }),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    }
}

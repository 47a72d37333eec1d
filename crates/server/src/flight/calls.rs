//! Entry point of gRPC calls: runs each call as a task in the statements' runtimes. The task is
//! aborted when the client abandons the call.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::FlightSqlService as _;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult,
    Ticket,
};
use datafusion::arrow::datatypes::Schema;
use futures::stream::BoxStream;
use prost::Message as _;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status, Streaming};

use super::answer::{call_of, encoded};
use super::handle::number_of;
use super::service::Service;
use crate::runtimes::Runtimes;

type Stream<T> = BoxStream<'static, Result<T, Status>>;
type Answer<T> = Result<Response<T>, Status>;

/// The gRPC service, which hands each call to [`Service`] in the statements' runtimes.
#[derive(Clone)]
pub(super) struct Front {
    service: Arc<Service>,
    statements: Runtimes,
}

impl Front {
    pub(super) fn new(statements: Runtimes) -> Self {
        Self { service: Arc::new(Service), statements }
    }

    /// Runs `work`, the body of a call, in the runtime of its priority. It is aborted if this
    /// future is dropped.
    async fn work<R, T: Send + 'static, F>(
        &self,
        request: Request<R>,
        work: impl FnOnce(Arc<Service>, Request<R>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let is_urgent = call_of(&request).is_ok_and(|call| call.is_urgent());
        let mut task = JoinSet::new();
        task.spawn_on(work(Arc::clone(&self.service), request), self.statements.of(is_urgent));
        match task.join_next().await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(%error, "a call has failed");
                Err(Status::internal("the call has failed; the log of the server says why"))
            }
            _ => Err(Status::unavailable("the server ends")),
        }
    }
}

/// Returns the columns of the result that a descriptor names.
async fn schema_of(service: &Service, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
    let call = call_of(&request)?;
    let invalid = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
    let any = Any::decode(request.get_ref().cmd.as_ref()).map_err(|error| invalid(&error))?;
    let known = match Command::try_from(any).map_err(|error| invalid(&error))? {
        Command::CommandStatementQuery(query) => {
            let transaction = query.transaction_id.as_deref();
            call.schema_of(&query.query, transaction).await.map(Some)
        }
        Command::CommandPreparedStatementQuery(query) => {
            let number = number_of(&query.prepared_statement_handle).unwrap_or(0);
            call.prepared(number).map(|statement| Some(statement.schema().cloned()))
        }
        _ => Ok(None),
    };
    let schema = match known.map_err(|failure| call.refuse(&failure))? {
        Some(Some(schema)) => encoded(&schema)?,
        Some(None) => encoded(&Schema::empty())?,
        // Commands about the database itself run nothing, so their flight can be computed.
        None => FlightService::get_flight_info(service, request).await?.into_inner().schema,
    };
    Ok(Response::new(SchemaResult { schema }))
}

#[tonic::async_trait]
impl FlightService for Front {
    type HandshakeStream = Stream<HandshakeResponse>;
    type ListFlightsStream = Stream<FlightInfo>;
    type DoGetStream = Stream<FlightData>;
    type DoPutStream = Stream<PutResult>;
    type DoActionStream = Stream<ActionResult>;
    type ListActionsStream = Stream<ActionType>;
    type DoExchangeStream = Stream<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        self.service.do_handshake(request).await
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        Err(Status::unimplemented("flights are not listed; GetTables lists the tables"))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.work(request, async move |service, request| {
            FlightService::get_flight_info(&*service, request).await
        })
        .await
    }

    async fn poll_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(Status::unimplemented("queries are not polled; GetFlightInfo begins them at once"))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.work(request, async move |service, request| schema_of(&service, request).await).await
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.work(request, async move |service, request| {
            FlightService::do_get(&*service, request).await
        })
        .await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.work(request, async move |service, request| {
            FlightService::do_put(&*service, request).await
        })
        .await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.work(request, async move |service, request| {
            FlightService::do_action(&*service, request).await
        })
        .await
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        FlightService::list_actions(&*self.service, request).await
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        Err(Status::unimplemented("DoExchange is no part of Flight SQL"))
    }
}

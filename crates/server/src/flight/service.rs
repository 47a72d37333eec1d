//! The commands and actions of Flight SQL.

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{DoPutError, FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, ActionCreatePreparedSubstraitPlanRequest,
    ActionEndSavepointRequest, ActionEndTransactionRequest, Any, Command, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementQuery, CommandStatementSubstraitPlan,
    CommandStatementUpdate, DoPutPreparedStatementResult, EndTransaction, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus,
    FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse, Result as ActionResult,
    Ticket,
};
use bytes::Bytes;
use datafusion::arrow::datatypes::Schema;
use futures::stream::{self, BoxStream};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::answer::{
    Info, NOTHING, Rows, call_of, count, empty, encoded, info, info_of, known, told,
};
use super::handle::number_of;
use super::login::Token;
use super::options::{CloseSessionResult, SetSessionOptionsRequest};
use super::query::Outcome;
use super::rows::{failure_of, send};
use super::session::Call;
use super::sql_info;
use super::{keys, metadata, parameters};
use crate::failure::{Failure, SqlState};

/// Actions on a savepoint: release it, or roll back to it.
const RELEASE: i32 = 1;
const ROLL_BACK: i32 = 2;
/// Result code of a cancelled query.
const CANCELLED: i32 = 1;

const SUBSTRAIT: &str = "plans of Substrait are not supported; send SQL";

/// Actions in addition to the standard ones of Flight SQL.
const ACTIONS: [(&str, &str); 4] = [
    ("CancelFlightInfo", "Ends a query: CancelFlightInfoRequest, CancelFlightInfoResult"),
    ("SetSessionOptions", "Sets options: SetSessionOptionsRequest, SetSessionOptionsResult"),
    ("GetSessionOptions", "Returns options: GetSessionOptionsRequest, GetSessionOptionsResult"),
    ("CloseSession", "Ends the session: CloseSessionRequest, CloseSessionResult"),
];

/// The service; its state is in the sessions of its calls.
pub(super) struct Service;

/// Returns the number of a flight's query, if the flight has one.
fn query_of(info: &FlightInfo) -> Option<u64> {
    let ticket = info.endpoint.first()?.ticket.as_ref()?;
    let any = Any::decode(ticket.ticket.as_ref()).ok()?;
    match Command::try_from(any).ok()? {
        Command::TicketStatementQuery(ticket) => number_of(&ticket.statement_handle),
        _ => None,
    }
}

/// Cancels the query of a flight.
fn cancel(call: &Call, info: Option<&FlightInfo>) -> Result<(), Status> {
    match info.and_then(query_of).filter(|number| call.cancel(*number)) {
        Some(_) => Ok(()),
        None => {
            let text = "there is no query of this flight in the session, or it has ended";
            Err(call.refuse(&Failure::new(SqlState::NO_PORTAL, text)))
        }
    }
}

fn invalid(error: &prost::DecodeError) -> Status {
    Status::invalid_argument(format!("a message that is none: {error}"))
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<BoxStream<'static, Result<HandshakeResponse, Status>>>, Status> {
        let token = request.extensions().get::<Token>().cloned();
        let Token(token) = token.ok_or_else(|| Status::internal("a login without a token"))?;
        let bearer = MetadataValue::try_from(format!("Bearer {token}"));
        let bearer = bearer.map_err(|error| Status::internal(error.to_string()))?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut response: Response<BoxStream<'static, _>> =
            Response::new(Box::pin(stream::iter([Ok(answer)])));
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let call = call_of(&request)?;
        let run = call.run_text(&query.query, query.transaction_id.as_deref());
        let outcome = told(&call, Box::pin(run).await)?;
        info_of(&call, outcome, request.into_inner())
    }

    async fn get_flight_info_substrait_plan(
        &self,
        _query: CommandStatementSubstraitPlan,
        _request: Request<FlightDescriptor>,
    ) -> Info {
        Err(Status::unimplemented(SUBSTRAIT))
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let call = call_of(&request)?;
        let number = number_of(&query.prepared_statement_handle).unwrap_or(NOTHING);
        let statement = told(&call, call.prepared(number))?;
        // A change may be bound to several rows of values.
        let outcome = match statement.schema() {
            Some(_) => Box::pin(call.run_prepared(&statement)).await,
            None => Box::pin(call.update_prepared(&statement)).await.map(Outcome::Done),
        };
        let outcome = told(&call, outcome)?;
        info_of(&call, outcome, request.into_inner())
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let schema = query.into_builder().schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let schema = query.clone().into_builder().schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let schema = query.clone().into_builder().schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let schema = query.into_builder().schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let call = call_of(&request)?;
        let schema = told(&call, sql_info::properties())?.schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        info(&keys::primary(), &query, request.into_inner(), None)
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        info(&keys::foreign(), &query, request.into_inner(), None)
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Info {
        info(&keys::foreign(), &query, request.into_inner(), None)
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Info {
        info(&keys::foreign(), &query, request.into_inner(), None)
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let call = call_of(&request)?;
        let schema = told(&call, sql_info::types())?.schema();
        info(&schema, &query, request.into_inner(), None)
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Rows {
        let call = call_of(&request)?;
        let number = number_of(&ticket.statement_handle);
        if number == Some(NOTHING) {
            return empty(Arc::new(Schema::empty()));
        }
        let number = number.unwrap_or(u64::MAX);
        let query = told(&call, call.redeem(number))?;
        Ok(Response::new(send(call, query, Some(number))))
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Rows {
        let call = call_of(&request)?;
        let number = number_of(&query.prepared_statement_handle).unwrap_or(NOTHING);
        let statement = told(&call, call.prepared(number))?;
        match told(&call, Box::pin(call.run_prepared(&statement)).await)? {
            Outcome::Rows(query) => Ok(Response::new(send(call, query, None))),
            Outcome::Done(_) => empty(Arc::new(Schema::empty())),
        }
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, request: Request<Ticket>) -> Rows {
        known(&*call_of(&request)?, metadata::catalogs(query))
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, request: Request<Ticket>) -> Rows {
        let call = call_of(&request)?;
        known(&call, metadata::schemas(&call.session, query))
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Rows {
        let call = call_of(&request)?;
        known(&call, metadata::tables(&call.session, query).await)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<Ticket>,
    ) -> Rows {
        known(&*call_of(&request)?, metadata::table_types(query))
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, request: Request<Ticket>) -> Rows {
        let properties = sql_info::properties();
        let batch = properties
            .and_then(|properties| query.into_builder(properties).build().map_err(failure_of));
        known(&*call_of(&request)?, batch)
    }

    async fn do_get_primary_keys(
        &self,
        _query: CommandGetPrimaryKeys,
        _request: Request<Ticket>,
    ) -> Rows {
        empty(keys::primary())
    }

    async fn do_get_exported_keys(
        &self,
        _query: CommandGetExportedKeys,
        _request: Request<Ticket>,
    ) -> Rows {
        empty(keys::foreign())
    }

    async fn do_get_imported_keys(
        &self,
        _query: CommandGetImportedKeys,
        _request: Request<Ticket>,
    ) -> Rows {
        empty(keys::foreign())
    }

    async fn do_get_cross_reference(
        &self,
        _query: CommandGetCrossReference,
        _request: Request<Ticket>,
    ) -> Rows {
        empty(keys::foreign())
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<Ticket>,
    ) -> Rows {
        let batch = sql_info::types()
            .and_then(|types| query.into_builder(types).build().map_err(failure_of));
        known(&*call_of(&request)?, batch)
    }

    async fn do_put_error_callback(
        &self,
        _request: Request<PeekableFlightDataStream>,
        error: DoPutError,
    ) -> Result<Response<<Self as FlightService>::DoPutStream>, Status> {
        Err(Status::invalid_argument(error.to_string()))
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let call = call_of(&request)?;
        let run = async {
            let transaction = update.transaction_id.as_deref();
            call.run_text(&update.query, transaction).await?.finish().await
        };
        told(&call, Box::pin(run).await).map(count)
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let call = call_of(&request)?;
        let run = call.ingest(&command, request.into_inner());
        told(&call, Box::pin(run).await).map(count)
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let call = call_of(&request)?;
        let number = number_of(&query.prepared_statement_handle).unwrap_or(NOTHING);
        let statement = told(&call, call.prepared(number))?;
        let limit = call.shared.limits.message_bytes;
        let rows = parameters::read(&statement, request.into_inner(), limit).await;
        if let Some(rows) = told(&call, rows)? {
            statement.bind(rows);
        }
        let prepared_statement_handle = Some(query.prepared_statement_handle);
        Ok(DoPutPreparedStatementResult { prepared_statement_handle })
    }

    async fn do_put_prepared_statement_update(
        &self,
        update: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let call = call_of(&request)?;
        let number = number_of(&update.prepared_statement_handle).unwrap_or(NOTHING);
        let statement = told(&call, call.prepared(number))?;
        let limit = call.shared.limits.message_bytes;
        let rows = parameters::read(&statement, request.into_inner(), limit).await;
        if let Some(rows) = told(&call, rows)? {
            statement.bind(rows);
        }
        told(&call, Box::pin(call.update_prepared(&statement)).await).map(count)
    }

    async fn do_put_substrait_plan(
        &self,
        _plan: CommandStatementSubstraitPlan,
        _request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(Status::unimplemented(SUBSTRAIT))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let call = call_of(&request)?;
        let planning = call.prepare(&query.query, query.transaction_id.as_deref());
        let statement = told(&call, Box::pin(planning).await)?;
        let rows = statement.schema().map(|schema| encoded(schema)).transpose()?;
        let has_parameters = !statement.parameters().is_empty();
        let values =
            has_parameters.then(|| encoded(&parameters::schema(&statement))).transpose()?;
        let number = told(&call, call.keep(statement))?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: Bytes::copy_from_slice(&number.to_be_bytes()),
            dataset_schema: rows.unwrap_or_default(),
            parameter_schema: values.unwrap_or_default(),
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let call = call_of(&request)?;
        let number = number_of(&query.prepared_statement_handle).unwrap_or(NOTHING);
        told(&call, call.forget(number))
    }

    async fn do_action_create_prepared_substrait_plan(
        &self,
        _query: ActionCreatePreparedSubstraitPlanRequest,
        _request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        Err(Status::unimplemented(SUBSTRAIT))
    }

    async fn do_action_begin_transaction(
        &self,
        _query: ActionBeginTransactionRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult, Status> {
        let call = call_of(&request)?;
        let number = told(&call, call.begin_transaction().await)?;
        let transaction_id = Bytes::copy_from_slice(&number.to_be_bytes());
        Ok(ActionBeginTransactionResult { transaction_id })
    }

    async fn do_action_end_transaction(
        &self,
        query: ActionEndTransactionRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let call = call_of(&request)?;
        let commits = match query.action() {
            EndTransaction::Commit => true,
            EndTransaction::Rollback => false,
            EndTransaction::Unspecified => {
                return Err(Status::invalid_argument(
                    "the end of a transaction is COMMIT or \
                                                     ROLLBACK",
                ));
            }
        };
        told(&call, call.end_transaction(&query.transaction_id, commits).await)
    }

    async fn do_action_begin_savepoint(
        &self,
        query: ActionBeginSavepointRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginSavepointResult, Status> {
        let call = call_of(&request)?;
        let begun = call.begin_savepoint(&query.transaction_id, &query.name).await;
        let number = told(&call, begun)?;
        let savepoint_id = Bytes::copy_from_slice(&number.to_be_bytes());
        Ok(ActionBeginSavepointResult { savepoint_id })
    }

    async fn do_action_end_savepoint(
        &self,
        query: ActionEndSavepointRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let call = call_of(&request)?;
        let releases = match query.action {
            RELEASE => true,
            ROLL_BACK => false,
            _ => {
                return Err(Status::invalid_argument(
                    "the end of a savepoint is RELEASE or \
                                                     ROLLBACK",
                ));
            }
        };
        told(&call, call.end_savepoint(&query.savepoint_id, releases).await)
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let call = call_of(&request)?;
        let info = FlightInfo::decode(query.info).map_err(|error| invalid(&error))?;
        cancel(&call, Some(&info))?;
        Ok(ActionCancelQueryResult { result: CANCELLED })
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>, Status> {
        let call = call_of(&request)?;
        let Action { r#type: name, body } = request.into_inner();
        let answer = match name.as_str() {
            "CancelFlightInfo" => {
                let asked = CancelFlightInfoRequest::decode(body);
                let asked = asked.map_err(|error| invalid(&error))?;
                cancel(&call, asked.info.as_ref())?;
                CancelFlightInfoResult::new(CancelStatus::Cancelled).encode_to_vec()
            }
            "SetSessionOptions" => {
                let asked = SetSessionOptionsRequest::decode(body);
                let asked = asked.map_err(|error| invalid(&error))?;
                call.set_options(asked).await.encode_to_vec()
            }
            "GetSessionOptions" => call.options().encode_to_vec(),
            "CloseSession" => {
                call.close();
                CloseSessionResult::closed().encode_to_vec()
            }
            other => {
                let text = format!("there is no action {other:?}; ListActions names them");
                return Err(Status::unimplemented(text));
            }
        };
        let result = ActionResult { body: answer.into() };
        Ok(Response::new(Box::pin(stream::iter([Ok(result)]))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let action = |(name, text): (&str, &str)| {
            Ok(ActionType { r#type: name.to_owned(), description: text.to_owned() })
        };
        Some(ACTIONS.into_iter().map(action).collect())
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}

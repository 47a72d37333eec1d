//! Sessions: parse, plan and run SQL statements.
//!
//! DataFusion parses, plans and runs. What it would apply to its own in-memory tables or to the
//! runtime of the session is handled here instead: tables, views and schemas are defined in the
//! catalog (`define`), with options of their own (`options`); settings that would replace the
//! memory pool are refused (`settings`); deletes and updates are planned from the statement as
//! written (`modify`). A statement reads one snapshot of the catalog (`snapshot`). Every query has
//! its own runtime.

mod acting_role;
mod actions;
mod alias_columns;
mod alter;
mod alter_syntax;
mod balance;
mod build_side;
pub(crate) mod canonical;
mod cast_names;
mod changes;
mod checks;
mod client_text;
mod column_options;
mod column_series;
mod columns_first;
mod comment;
mod computed_keys;
mod constant;
mod copy;
mod copy_text;
mod correlated_names;
mod creation;
mod cursor;
mod database_copy;
mod database_script;
mod defaults;
mod define;
mod deletion;
mod dependencies;
mod dependents;
mod depth;
mod dialect;
mod dml;
mod duplicate_names;
mod enums;
mod exclusive;
mod expand;
mod explain;
mod expressions;
mod file_copy;
mod file_option_values;
mod file_options;
mod filter_pushdown;
pub(crate) mod floats;
mod function_list;
mod generated;
mod generated_merge;
mod generated_values;
mod grant;
mod group_filters;
mod group_keys;
mod grouping_positions;
mod grouping_repeats;
mod grouping_sets;
mod guards;
mod heap;
mod hint;
mod identity;
mod inexact_casts;
mod insert_forms;
mod interruptible_rules;
mod join_constraint;
mod json_calls;
mod json_records;
mod large_joins;
mod limit_values;
mod limits;
pub(crate) mod list_literals;
pub(crate) mod lists;
mod maintenance;
mod membership;
mod merge_clauses;
mod merge_statement;
mod metadata_functions;
mod misplaced_calls;
mod missing_rows;
mod mixed_keys;
mod modify;
mod multiplicity;
mod named_settings;
mod named_statements;
mod nearest;
mod normalize;
mod not_in;
mod notice;
mod null_equality;
mod object_change;
mod object_name;
mod optimize;
mod options;
mod order_by_all;
mod order_keys;
mod order_names;
mod order_positions;
mod outer_aggregates;
mod outer_conditions;
mod outer_values;
mod own_settings;
mod owned_sequences;
mod parse;
mod parts;
mod physical;
mod pragma;
mod prepared;
mod prepared_statement;
mod properties;
pub(crate) mod quotients;
mod recursion;
mod refusal;
mod relations;
mod remote_addresses;
mod returned_columns;
mod returning;
mod returning_clause;
mod role;
mod routines;
mod row_assignments;
mod row_locks;
mod row_subqueries;
mod row_values;
mod rows;
mod rules;
mod samples;
mod schema_rename;
mod secret;
mod select_series;
mod selectivity;
pub(crate) mod semantics;
mod sequence;
mod sequence_calls;
mod sequence_changes;
mod sequential_effects;
mod setting_names;
mod settings;
mod short_circuit;
mod show;
mod side_effects;
mod similar_to;
mod slices;
mod snapshot;
mod soft_limits;
mod special_joins;
mod spelling;
mod split_series;
mod sql_column;
mod sql_type;
mod state;
mod state_copy;
mod statement;
mod struct_calls;
mod subqueries;
mod summarize;
mod target;
mod tenant;
mod tier;
mod transaction;
mod typed_parameters;
mod types;
mod unnest;
mod unsupported;
pub(crate) mod using;
mod volatility;
mod walk;
mod window_distances;
mod window_exclusion;
mod window_frames;
mod window_names;
pub(crate) mod with_queries;
mod within_group;
mod words;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::config::Dialect;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use terrace_governor::pins::Reader;
use terrace_governor::running::RunningQuery;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::{Reading, check_names, check_plan};
use crate::execution::{self, Output, QueryHandle};
use crate::file_tables::FILES_MAX;
use crate::names::{Added, SearchPath};
use crate::view;
use depth::OnStack;
pub(crate) use depth::{OfView, on_stack};
pub(crate) use parse::parse;
use parts::PartsNode;
use state::Planned;

pub use actions::copy::{CopyIn, CopyRows};
pub use client_text::statement_texts;
pub use comment::CommentStatement;
pub use copy::{CopyFormat, CopyHeader, CopyStatement};
pub use cursor::{CursorAction, CursorOptions, CursorStatement, Steps};
pub use database_copy::DatabaseCopy;
pub use dialect::call;
pub use enums::report::EnumReport;
pub(crate) use enums::report::enums as enums_of;
pub use enums::syntax::{LabelPlace, TypeName, TypeStatement};
pub use explain::ExplainStatement;
pub use file_copy::CopyFrom;
pub use grant::{AccessChange, GrantStatement};
pub use heap::HeapStatement;
pub use identity::IdentityStatement;
pub use maintenance::MaintenanceStatement;
pub use notice::{Notice, Severity};
pub use object_change::{AlterView, ObjectChange};
pub(crate) use own_settings::{
    MARKET as MARKET_SETTING, TENANT as TENANT_SETTING, check as check_settings,
};
pub(crate) use owned_sequences::owner_of;
pub use prepared_statement::Prepared;
pub use role::{Grantor, RoleOption, RoleStatement};
pub use routines::report::RoutineReport;
pub(crate) use routines::report::routines as routines_of;
pub use routines::routine::{DroppedKind, DroppedRoutine, Routine, RoutineStatement};
pub use secret::SecretStatement;
pub use sequence::SequenceStatement;
pub use sequence_changes::SequenceChanges;
pub use sql_type::of as type_name;
pub use state::Session;
pub use statement::{QueryAction, SessionStatement};
pub use tenant::TenantStatement;
pub use tier::AlterTier;
pub use transaction::TransactionStatement;
pub(crate) use unnest::template;
pub use walk::{Visitor, Walk};

impl Session {
    /// Splits a text into statements.
    ///
    /// # Errors
    /// Parser errors, with line and column; [`SqlError::Refused`] for a statement that is not
    /// supported or is nested too deep.
    pub fn parse(&self, text: &str) -> Result<Vec<SessionStatement>, SqlError> {
        parse(text)
    }

    /// Runs every statement of a text to its end, in order, and stops at the first error. The
    /// effects of earlier statements remain, unless they are in a transaction.
    ///
    /// # Errors
    /// Parser errors, before anything runs; then errors of the statements.
    pub fn sql<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<Output>, SqlError>> {
        Box::pin(async move {
            let mut outputs = Vec::new();
            let statements = self.parse(text).inspect_err(|_| self.fail_transaction())?;
            let texts = statement_texts(text, statements.len());
            for (statement, text) in statements.into_iter().zip(texts) {
                outputs.push(self.execute_as(statement, text).await?.collect().await?);
            }
            Ok(outputs)
        })
    }

    /// Plans a statement and starts it. Definitions and settings take effect before this returns;
    /// everything else runs while the handle's stream is read.
    ///
    /// # Errors
    /// Errors of planning, and of the effects before this returns. In a transaction, an error makes
    /// the transaction fail, now or while the stream is read.
    pub fn execute<'a>(
        &'a self,
        statement: SessionStatement,
    ) -> BoxFuture<'a, Result<QueryHandle, SqlError>> {
        self.execute_as(statement, None)
    }

    /// Runs a statement as [`Session::execute`] does. `said` is the text of the statement as its
    /// client sent it, which other sessions see unless it contains a password or a key.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn execute_as<'a>(
        &'a self,
        statement: SessionStatement,
        said: Option<&'a str>,
    ) -> BoxFuture<'a, Result<QueryHandle, SqlError>> {
        Box::pin(async move {
            let text = depth::text_of(&statement);
            let shown = client_text::shown(&statement, said, &text);
            let may_lock = row_locks::may_be_in_text(&text);
            let scope = match &statement {
                SessionStatement::Transaction(_) => Scope::ALONE,
                // A setting does not belong to the transaction: its first statement is the next one
                // that does.
                statement if statement.is_setting() => {
                    self.scope().refuse_failed()?;
                    Scope::ALONE
                }
                _ => self.begin_statement()?,
            };
            let waits = statement.waits_for_its_turn();
            let plan = |reader: Arc<Reader>| {
                self.plan(statement, may_lock, scope.shown_by(&reader.suspension), reader)
            };
            self.start(&text, shown, scope.clone(), waits, plan)
                .await
                .inspect_err(|error| self.failed(error))
        })
    }

    /// Begins a statement and returns the transaction that it belongs to.
    fn begin_statement(&self) -> Result<Scope, SqlError> {
        let scope = self.scope();
        if let Scope::Within(transaction, _) = &scope {
            transaction.statement()?;
        }
        Ok(scope)
    }

    /// Refuses a change in a read-only transaction.
    fn refuse_change(&self, scope: &Scope, what: &str) -> Result<(), SqlError> {
        match scope {
            Scope::Within(transaction, _) => transaction.refuse_change(what),
            Scope::Alone(_) if self.reads_only.load(Ordering::Relaxed) => {
                Err(SqlError::ReadOnly { what: what.to_owned() })
            }
            Scope::Alone(_) => Ok(()),
        }
    }

    /// Refuses a statement for superusers only: a change of the engine, of tenants, or of queries.
    fn refuse_without_rights(&self, statement: &SessionStatement) -> Result<(), SqlError> {
        let is_of_superusers = match statement {
            SessionStatement::Role(_) => false,
            SessionStatement::Query { .. } => true,
            statement => statement.is_of_the_engine(),
        };
        if self.role().is_none() || !is_of_superusers {
            return Ok(());
        }
        let snapshot = self.engine.catalog().snapshot();
        self.rights(&snapshot).require_superuser(&statement.to_string())
    }

    /// Handles a statement that failed before its rows were read.
    fn failed(&self, error: &SqlError) {
        if !matches!(error, SqlError::NoTransaction | SqlError::TransactionBegun) {
            self.fail_transaction();
        }
    }

    /// Registers a query, whose text other sessions see as `shown`, waits in its tenant's queue if
    /// `waits`, plans it by `plan`, and starts it in the transaction of `scope`.
    async fn start<'a, P>(
        &self,
        text: &str,
        shown: String,
        scope: Scope,
        waits: bool,
        plan: impl FnOnce(Arc<Reader>) -> P,
    ) -> Result<QueryHandle, SqlError>
    where
        P: Future<Output = Result<Planned, SqlError>> + Send + 'a,
    {
        self.end_temporary_rows().await?;
        let (queries, resources) = (self.engine.queries(), self.engine.resources());
        let base = self.context.runtime_env();
        let claim = self.claim();
        let tenant = claim.tenant.clone().filter(|_| waits);
        let session = Some(self.info.number());
        let mut running = RunningQuery::begin(queries, resources, &base, shown, claim, session)?;
        if let Some(tenant) = tenant {
            let limits = || {
                let tenant = self.engine.catalog().tenant(&tenant);
                tenant.map(|it| it.limits).unwrap_or_default()
            };
            let turn = self.engine.tenancy().turn(&tenant, limits);
            running.wait_for(turn).await?;
        }
        let planning = execution::supervised(Box::pin(plan(running.reader())));
        let planning = OnStack::new(text, planning);
        let Planned { plan, watched } = execution::planned(running.query(), planning).await?;
        let context = self.task_context();
        Ok(execution::start(running, plan, watched, context, scope, &self.info)?)
    }

    /// A task context with the settings of the session. Its function registries are empty: plans
    /// carry their functions.
    fn task_context(&self) -> TaskContext {
        let state = self.context.state_ref();
        let state = state.read();
        let (id, config) = (state.session_id().to_owned(), state.config().clone());
        let runtime = Arc::clone(state.runtime_env());
        let (scalar, higher, aggregates, windows) = Default::default();
        TaskContext::new(None, id, config, scalar, higher, aggregates, windows, runtime)
    }

    /// Applies the immediate effects of a statement, then returns its physical plan. Rows are
    /// locked only for a statement that `may_lock` them.
    async fn plan(
        &self,
        statement: SessionStatement,
        may_lock: bool,
        scope: Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        if let (Scope::Within(..), true) = (&scope, statement.is_of_the_engine()) {
            return Err(SqlError::InTransaction { what: statement.to_string() });
        }
        self.refuse_without_rights(&statement)?;
        match statement {
            SessionStatement::Sql(statement) => {
                self.plan_sql(*statement, may_lock, scope, reader).await
            }
            SessionStatement::Query { action, id } => self.act_on(action, id),
            SessionStatement::Role(statement) => self.act_on_roles(statement).await,
            SessionStatement::Grant(statement) => self.change_access(*statement, &scope).await,
            SessionStatement::Comment(statement) => self.comment(statement, &scope).await,
            SessionStatement::Sequence(statement) => self.act_on_sequences(statement, &scope).await,
            SessionStatement::Identity(statement) => self.change_identity(*statement, &scope),
            SessionStatement::Tenant(statement) => self.act_on_tenant(statement).await,
            SessionStatement::Tier(statement) => self.alter_tier(&statement),
            SessionStatement::Secret(statement) => self.act_on_secret(statement),
            SessionStatement::Heap(statement) => self.act_on_heap(statement).await,
            SessionStatement::Transaction(statement) => self.act_on_transaction(statement).await,
            SessionStatement::Copy(copy) => Err(SqlError::Refused {
                what: format!("{copy} without a client that sends or takes the rows"),
                instead:
                    "name a file, say \\copy at the prompt, or use a client of `terrace serve`"
                        .to_owned(),
            }),
            SessionStatement::CopyFrom(copy) => self.copy_files_in(*copy, &scope, reader).await,
            SessionStatement::DatabaseCopy(copy) => {
                Box::pin(self.copy_database(*copy, &scope, reader)).await
            }
            SessionStatement::Cursor(statement) => Err(statement.refused()),
            SessionStatement::Maintenance(statement) => self.maintain(statement, &scope).await,
            SessionStatement::Routine(statement) => self.change_routines(*statement, &scope).await,
            SessionStatement::Type(statement) => self.change_types(*statement, &scope).await,
            SessionStatement::View(alter) => self.alter_view(*alter, &scope).await,
            SessionStatement::Summarize(query) => self.summarize(*query, &scope, reader).await,
            SessionStatement::Explain(explain) => self.explain(*explain, &scope, reader).await,
        }
    }

    /// Applies the immediate effects of a statement that DataFusion plans, then returns its
    /// physical plan.
    async fn plan_sql(
        &self,
        mut statement: Statement,
        may_lock: bool,
        scope: Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        if self.has_set(&statement)? {
            return Ok(Planned::nothing());
        }
        self.follow_engine()?;
        if may_lock {
            Box::pin(self.lock_rows(&mut statement, &scope, &reader)).await?;
        }
        let (mut state, snapshot) = self.state_in(&scope)?;
        if options::are_in(&statement) {
            // Defaults and conditions are stored as they are written out.
            self.write_out_routines(&state, &snapshot, &mut statement)?;
        }
        let mut options = options::take(&mut statement)?;
        state.config_mut().set_extension(Arc::clone(&reader));
        if let Some(alter) = alter::of(&statement) {
            enums::names::check_alter(&state, &self.rights(&snapshot), alter)?;
            return self.alter_table(state, &snapshot, alter, &scope).await;
        }
        if let Some(rename) = schema_rename::of(&statement)? {
            return self.rename_schema(&snapshot, rename, &scope);
        }
        if let Some(named) = named_statements::of(&statement) {
            return self.act_on_named(&state, &snapshot, named, statement).await;
        }
        if let Some(drops) = actions::drops::of(&statement) {
            return self.drop_relations(&state, &snapshot, drops, &scope).await;
        }
        if let Some(tables) = actions::tables::of(&statement) {
            return self.act_on_tables(&state, &snapshot, tables, &scope).await;
        }
        if let Some(create) = actions::like::of(&statement) {
            return self.create_like(&state, &snapshot, create, options, &scope).await;
        }
        options.view = self.written_view(&state, &snapshot, &statement)?;
        match self.logical_plan(&state, &snapshot, statement).await? {
            plan @ LogicalPlan::Ddl(_) => {
                check_plan(&plan, &self.rights(&snapshot))?;
                let LogicalPlan::Ddl(definition) = plan else { return Ok(Planned::nothing()) };
                self.refuse_change(&scope, "a definition")?;
                self.define(&state, &snapshot, definition, options, &scope).await
            }
            plan if parts::of(&plan).is_some_and(PartsNode::is_definition) => {
                self.refuse_change(&scope, "a definition")?;
                let options = Some(options);
                Box::pin(self.plan_together(state, plan, &snapshot, &scope, options)).await
            }
            plan => self.physical_plan(state, plan, &snapshot, &scope, reader).await,
        }
    }

    /// The logical plan of a statement; names are resolved in the state's snapshot.
    async fn logical_plan(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        mut statement: Statement,
    ) -> Result<LogicalPlan, SqlError> {
        // Others are planned without their locks.
        if !row_locks::may_be_in(&statement) {
            row_locks::refuse(&mut statement)?;
        }
        if let Some(plan) = self.show(state, &statement).await? {
            return Ok(plan);
        }
        if parts::are_in(&statement) {
            return self.plan_parts(state.clone(), snapshot, statement).await;
        }
        let mut statement = match self.shown(&statement) {
            Some(text) => state.sql_to_statement(&text, &Dialect::Generic)?,
            None => self.with_known_names(statement)?,
        };
        let _found = self.cloud.is_used().then(|| {
            let path = SearchPath::of(state.config_options());
            let addresses = remote_addresses::all(&statement, &path, snapshot);
            self.cloud.find_together(addresses, FILES_MAX)
        });
        self.write_out_routines(state, snapshot, &mut statement)?;
        enums::names::write_out_with(state, &self.rights(snapshot), &mut statement)?;
        Added::rewrite(state, &mut statement);
        check_names(state, &statement, &self.rights(snapshot), Reading::of(&statement))?;
        expand::write_out(self, state, &self.rights(snapshot), &mut statement).await?;
        using::write_out(state, &mut statement).await?;
        changes::write_out(state, snapshot, &mut statement).await?;
        generated::refuse_values(state, snapshot, &mut statement)?;
        defaults::write_out(state, snapshot, &mut statement)?;
        let returning = returning_clause::take(&mut statement);
        let is_deletion = deletion::as_update(&mut statement);
        with_queries::write_out(state, &mut statement)?;
        match expand::plan(self, state, &self.rights(snapshot), &statement).await? {
            Ok(plan) => {
                depth::check_plan(&plan)?;
                recursion::check_plan(&plan)?;
                misplaced_calls::check_plan(&plan)?;
                let plan = enums::plan::rewrite(state, semantics::ranks::as_bigint(plan)?)?;
                let plan = if is_deletion { deletion::of_update(plan)? } else { plan };
                let plan = generated::computed(state, defaults::fill(state, plan)?)?;
                let plan = returning::add(state, plan, returning)?;
                Ok(types::of_output(multiplicity::by_multiplicity(snapshot::unpin(plan)?)?)?)
            }
            Err(error) => {
                let error = view::cause(state, snapshot, &statement, error).await;
                Err(nearest::with_suggestion(state, &self.names.names(), error).into())
            }
        }
    }

    /// The physical plan of SUMMARIZE.
    async fn summarize(
        &self,
        mut query: Statement,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        row_locks::refuse(&mut query)?;
        self.follow_engine()?;
        let (mut state, snapshot) = self.state_in(scope)?;
        state.config_mut().set_extension(Arc::clone(&reader));
        let query = self.logical_plan(&state, &snapshot, query).await?;
        let plan = enums::plan::rewrite(&state, summarize::plan(query)?)?;
        self.physical_plan(state, plan, &snapshot, scope, reader).await
    }
}

impl Session {
    /// Suspends, resumes or cancels the query of an id.
    fn act_on(&self, action: QueryAction, id: u64) -> Result<Planned, SqlError> {
        let Some(query) = self.engine.queries().find(id) else {
            return Err(SqlError::MissingQuery { id });
        };
        match action {
            QueryAction::Suspend => query.suspend(),
            QueryAction::Resume => query.resume(),
            QueryAction::Cancel => query.cancel(),
        }
        Ok(Planned::nothing())
    }
}

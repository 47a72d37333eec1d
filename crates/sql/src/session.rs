//! Sessions: parse, plan and run SQL statements.
//!
//! DataFusion parses, plans and runs. What it would apply to its own in-memory tables or to the
//! runtime of the session is handled here instead: tables, views and schemas are defined in the
//! catalog (`define`), with options of their own (`options`); settings that would replace the
//! memory pool are refused (`settings`); deletes and updates are planned from the statement as
//! written (`modify`). A statement reads one snapshot of the catalog (`snapshot`). Every query has
//! its own runtime.

mod build_side;
pub(crate) mod canonical;
mod constant;
mod copy;
mod correlated_names;
mod cursor;
mod define;
mod depth;
mod dialect;
mod duplicate_names;
mod exclusive;
mod filter_pushdown;
pub(crate) mod floats;
mod grant;
mod group_filters;
mod group_keys;
mod grouping_sets;
mod heap;
pub(crate) mod hint;
mod join_constraint;
pub(crate) mod lists;
mod modify;
mod multiplicity;
mod normalize;
mod not_in;
mod null_equality;
mod options;
mod order_keys;
mod outer_aggregates;
mod outer_conditions;
mod prepared;
mod role;
mod row_subqueries;
mod row_values;
mod rules;
mod selectivity;
pub(crate) mod semantics;
mod settings;
mod similar_to;
mod snapshot;
mod statement;
mod subqueries;
mod tenant;
mod tier;
mod transaction;
mod union_names;
pub(crate) mod using;
mod walk;
mod words;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::{CatalogProviderList, DynamicFileCatalog, MemoryCatalogProviderList};
use datafusion::config::Dialect;
use datafusion::datasource::dynamic_file::DynamicListTableFactory;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{
    FunctionRegistry as _, SessionState, SessionStateBuilder, TaskContext,
};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use futures::future::BoxFuture;
use object_store::memory::InMemory;
use terrace_exec::PagedOptions;
use terrace_sys::size::{KIB, MIB, to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::access::{Reading, check_names, check_plan};
use crate::catalog::{DEFAULT_SCHEMA, Snapshot};
use crate::engine::EngineState;
use crate::error::SqlError;
use crate::names::{Added, AddedSchema, CATALOG, MainCatalog, Names};
use crate::pins::Reader;
use crate::query::{Environment, Output, QueryHandle, RunningQuery, environment, supervised};
use crate::scan::STORE_URL;
use crate::sessions::SessionInfo;
use crate::tenancy::Seat;
use crate::transaction::{OpenTransaction, Scope, Transaction};
use crate::view;
use crate::{functions, scalar, series};
use depth::OnStack;
pub(crate) use depth::on_stack;
use dialect::TerraceDialect;
use group_keys::Relations;

pub use copy::{CopyFormat, CopyIn, CopyRows, CopyStatement};
pub use cursor::{CursorAction, CursorStatement, Steps};
pub use dialect::call;
pub use grant::{AccessChange, GrantStatement};
pub use heap::HeapStatement;
pub use prepared::Prepared;
pub use role::{RoleOption, RoleStatement};
pub(crate) use settings::{
    MARKET as MARKET_SETTING, TENANT as TENANT_SETTING, check as check_settings,
};
pub use statement::{QueryAction, SessionStatement};
pub use tenant::TenantStatement;
pub use tier::AlterTier;
pub use transaction::TransactionStatement;
pub use walk::{Visitor, Walk};

/// Number of sessions so far, which gives each its name in the ledger.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A session of an engine, with its settings, external tables, prepared statements and open
/// transaction. Dropping the session rolls the transaction back.
pub struct Session {
    engine: Arc<EngineState>,
    context: SessionContext,
    names: Arc<MainCatalog>,
    transaction: OpenTransaction,
    /// The role that statements run as; `None` is unrestricted.
    role: Option<Arc<str>>,
    /// The session's seat in its tenant.
    seat: Option<Arc<Seat>>,
    /// True if transactions are READ ONLY by default.
    reads_only: AtomicBool,
    /// State of the session that other sessions can see.
    info: Arc<SessionInfo>,
}

impl Session {
    pub(crate) fn of_role(engine: Arc<EngineState>, role: &str) -> Result<Self, SqlError> {
        let missing = || SqlError::MissingRole { name: role.to_owned() };
        let known = engine.catalog().role(role).ok_or_else(missing)?;
        let sit = |tenant: &String| engine.tenancy().sit(engine.catalog(), tenant).map(Arc::new);
        let seat = known.tenant.as_ref().map(sit).transpose()?;
        Self::acting_for(engine, Some(role.into()), seat, None)
    }

    pub(crate) fn new(engine: Arc<EngineState>) -> Result<Self, SqlError> {
        Self::acting_for(engine, None, None, None)
    }

    /// Returns a new session for the same role, with its initial settings, which replaces this one.
    ///
    /// # Errors
    /// As [`crate::Engine::session`].
    pub fn renewed(&self) -> Result<Self, SqlError> {
        let info = Some(Arc::clone(&self.info));
        Self::acting_for(Arc::clone(&self.engine), self.role.clone(), self.seat.clone(), info)
    }

    fn acting_for(
        engine: Arc<EngineState>,
        role: Option<Arc<str>>,
        seat: Option<Arc<Seat>>,
        info: Option<Arc<SessionInfo>>,
    ) -> Result<Self, SqlError> {
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("session {number}");
        let base = RuntimeEnv::default();
        let url = ObjectStoreUrl::parse(STORE_URL)?;
        base.register_object_store(url.as_ref(), Arc::new(InMemory::new()));
        // Planning outside of a query, by way of `context`, is accounted for too.
        let Environment { runtime, .. } = environment(engine.resources(), &base, &name)?;
        let files = Arc::new(DynamicListTableFactory::default());
        let transaction = OpenTransaction::default();
        let names =
            MainCatalog::new(Arc::clone(&engine), Arc::clone(&files) as _, transaction.clone());
        let names = Arc::new(names);
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::clone(&names) as _);
        let catalogs = DynamicFileCatalog::new(Arc::new(catalogs), Arc::clone(&files) as _);
        let mut state = SessionStateBuilder::new()
            .with_config(config(&engine))
            .with_runtime_env(runtime)
            .with_catalog_list(Arc::new(catalogs))
            .with_default_features()
            .with_analyzer_rules(rules::analyzer())
            .with_optimizer_rules(rules::logical())
            .with_physical_optimizer_rules(rules::physical())
            .with_relation_planners(vec![Arc::new(Relations)])
            .build();
        functions::register(&mut state)?;
        for function in scalar::functions() {
            state.register_udf(function)?;
        }
        let context = SessionContext::new_with_state(state);
        for (name, function) in series::functions() {
            context.register_udtf(&name, function);
        }
        files.session_store().with_state(context.state_weak_ref());
        let weak = context.state_weak_ref();
        names.attach(Box::new(move || weak.upgrade().map(|state| state.read().clone())));
        let reads_only = AtomicBool::default();
        let tenant = seat.as_ref().map(|seat| Arc::clone(seat.tenant()));
        let info = info.unwrap_or_else(|| engine.sessions().add(number, role.clone(), tenant));
        info.follow(&transaction);
        let session = Self { engine, context, names, transaction, role, seat, reads_only, info };
        session.reset_settings();
        Ok(session)
    }

    /// State of the session that other sessions can see; accounts for its memory outside of
    /// queries.
    #[must_use]
    pub fn info(&self) -> &Arc<SessionInfo> {
        &self.info
    }

    fn transaction(&self) -> MutexGuard<'_, Option<Arc<Transaction>>> {
        lock(&self.transaction)
    }

    /// DataFusion's context of the session. Statements run through it are not registered as
    /// queries; use [`Session::execute`] for that.
    #[must_use]
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// The role that statements run as; `None` if the session is unrestricted.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// Adds a schema to those of the database; at most once per session. Its tables are also found
    /// by their bare names, unless the session's default schema has a table of that name.
    pub fn add_schema(&self, schema: Arc<dyn AddedSchema>) {
        self.names.add(Arc::clone(&schema));
        let state = self.context.state_ref();
        state.write().config_mut().set_extension(Arc::new(Added(schema)));
    }

    /// The names of the database, as a statement that begins now would see them.
    #[must_use]
    pub fn names(&self) -> Names {
        self.names.names()
    }

    /// Resets all settings of the session to their initial values.
    pub fn reset_settings(&self) {
        let state = self.context.state_ref();
        let mut begun = config(&self.engine).options().as_ref().clone();
        let role = self.role().and_then(|role| self.engine.catalog().role(role));
        if let Some(tenant) = role.and_then(|role| role.tenant.clone())
            && let Some(options) = begun.extensions.get_mut::<PagedOptions>()
        {
            options.tenant = tenant;
        }
        *state.write().config_mut().options_mut() = begun;
        self.reads_only.store(false, Ordering::Relaxed);
    }

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
            for statement in statements {
                outputs.push(self.execute(statement).await?.collect().await?);
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
        Box::pin(async move {
            let text = depth::text_of(&statement);
            let scope = match &statement {
                SessionStatement::Transaction(_) => Scope::Alone,
                // A setting does not belong to the transaction: its first statement is the next one
                // that does.
                statement if statement.is_setting() => {
                    self.scope().refuse_failed()?;
                    Scope::Alone
                }
                _ => self.begin_statement()?,
            };
            let waits = statement.waits_for_its_turn();
            let plan = |reader| self.plan(statement, scope.clone(), reader);
            self.start(text, scope.clone(), waits, plan)
                .await
                .inspect_err(|error| self.failed(error))
        })
    }

    /// Begins a statement and returns the transaction that it belongs to.
    fn begin_statement(&self) -> Result<Scope, SqlError> {
        let scope = self.scope();
        if let Scope::Within(transaction) = &scope {
            transaction.statement()?;
        }
        Ok(scope)
    }

    /// Refuses a change in a read-only transaction.
    fn refuse_change(&self, scope: &Scope, what: &str) -> Result<(), SqlError> {
        match scope {
            Scope::Within(transaction) => transaction.refuse_change(what),
            Scope::Alone if self.reads_only.load(Ordering::Relaxed) => {
                Err(SqlError::ReadOnly { what: what.to_owned() })
            }
            Scope::Alone => Ok(()),
        }
    }

    /// Handles a statement that failed before its rows were read.
    fn failed(&self, error: &SqlError) {
        if !matches!(error, SqlError::NoTransaction | SqlError::TransactionBegun) {
            self.fail_transaction();
        }
    }

    /// Registers a query, waits in its tenant's queue if `waits`, plans it, and starts it in the
    /// transaction of `scope`.
    async fn start<'a, P>(
        &self,
        text: String,
        scope: Scope,
        waits: bool,
        plan: impl FnOnce(Arc<Reader>) -> P,
    ) -> Result<QueryHandle, SqlError>
    where
        P: Future<Output = Result<Planned, SqlError>> + Send + 'a,
    {
        let (queries, resources) = (self.engine.queries(), self.engine.resources());
        let base = self.context.runtime_env();
        let claim = self.claim();
        let tenant = claim.tenant.clone().filter(|_| waits);
        let session = Some(Arc::clone(&self.info));
        let mut running =
            RunningQuery::begin(queries, resources, &base, text.clone(), claim, session)?;
        if let Some(tenant) = tenant {
            let turn = self.engine.tenancy().turn(self.engine.catalog(), &tenant);
            running.wait_for(turn).await?;
        }
        let planning = supervised(Box::pin(plan(running.reader())));
        let Planned { plan, watched } = OnStack::new(&text, planning).await?;
        let context = self.task_context();
        Ok(running.start(plan, watched, context, scope)?)
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

    /// Applies the immediate effects of a statement, then returns its physical plan.
    async fn plan(
        &self,
        statement: SessionStatement,
        scope: Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        if let (Scope::Within(_), true) = (&scope, statement.is_of_the_engine()) {
            return Err(SqlError::InTransaction { what: statement.to_string() });
        }
        self.refuse_without_rights(&statement)?;
        let mut statement = match statement {
            SessionStatement::Sql(statement) => *statement,
            SessionStatement::Query { action, id } => return self.act_on(action, id),
            SessionStatement::Role(statement) => return self.act_on_roles(statement).await,
            SessionStatement::Grant(statement) => {
                return self.change_access(*statement, &scope).await;
            }
            SessionStatement::Tenant(statement) => return self.act_on_tenant(statement).await,
            SessionStatement::Tier(statement) => return self.alter_tier(&statement),
            SessionStatement::Heap(statement) => return self.act_on_heap(statement).await,
            SessionStatement::Transaction(statement) => {
                return self.act_on_transaction(statement).await;
            }
            SessionStatement::Copy(copy) => {
                return Err(SqlError::Refused {
                    what: format!("{copy} without a client that sends or takes the rows"),
                    instead: "name a file, or use a client of `terrace serve`".to_owned(),
                });
            }
            SessionStatement::Cursor(statement) => return Err(statement.refused()),
        };
        settings::refuse(&statement)?;
        self.refuse_settings(&statement)?;
        if self.reset(&statement)? {
            return Ok(Planned::nothing());
        }
        self.follow_engine()?;
        let encoding = options::take_encoding(&mut statement)?;
        let snapshot = scope.snapshot(self.engine.catalog())?;
        let mut state = self.context.state();
        self.names.resolve_in(&mut state, &snapshot);
        state.config_mut().set_extension(Arc::clone(&reader));
        match self.logical_plan(&state, &snapshot, statement).await? {
            plan @ LogicalPlan::Ddl(_) => {
                check_plan(&plan, &self.rights(&snapshot))?;
                let LogicalPlan::Ddl(definition) = plan else { return Ok(Planned::nothing()) };
                self.refuse_change(&scope, "a definition")?;
                self.define(&state, &snapshot, definition, encoding, &scope).await
            }
            plan => self.physical_plan(state, plan, &snapshot, &scope, reader).await,
        }
    }

    /// The logical plan of a statement; names are resolved in the state's snapshot.
    async fn logical_plan(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        statement: Statement,
    ) -> Result<LogicalPlan, SqlError> {
        let mut statement = match self.shown(&statement) {
            Some(text) => state.sql_to_statement(&text, &Dialect::Generic)?,
            None => statement,
        };
        Added::rewrite(state, &mut statement);
        check_names(state, &statement, &self.rights(snapshot), Reading::Statement)?;
        using::write_out(state, &mut statement).await?;
        match duplicate_names::plan(state, &statement).await {
            Ok(plan) => {
                depth::check_plan(&plan)?;
                Ok(multiplicity::by_multiplicity(snapshot::unpin(plan)?)?)
            }
            Err(error) => Err(view::cause(state, snapshot, &statement, error).await.into()),
        }
    }

    /// The physical plan of a statement that is not a definition, over tables as of `snapshot`.
    async fn physical_plan(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        snapshot: &Snapshot,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        // DataFusion's context executes settings and prepared statements; it only wraps any other
        // plan, without running it.
        self.settle(&plan)?;
        let (mut state, plan) = match plan {
            LogicalPlan::Statement(_) | LogicalPlan::Ddl(_) => {
                self.context.execute_logical_plan(plan).await?.into_parts()
            }
            // Without the context, which would copy all functions.
            plan => (state, plan),
        };
        state.config_mut().set_extension(reader);
        // A prepared statement shows only here that it is a change of rows.
        if matches!(plan, LogicalPlan::Dml(_)) {
            self.refuse_change(scope, "a change of rows")?;
        }
        let plan = snapshot::pin(plan, snapshot)?;
        check_plan(&plan, &self.rights(snapshot))?;
        if let Some(planned) = self.modify(&state, &plan).await? {
            return Ok(planned);
        }
        let plan = state.create_physical_plan(&plan).await?;
        Ok(Planned { plan, watched: None })
    }
}

/// Parses a text into normalized statements.
pub(crate) fn parse(text: &str) -> Result<Vec<SessionStatement>, SqlError> {
    depth::parse_on_stack(text, || {
        let parser = DFParserBuilder::new(text)
            .with_dialect(&TerraceDialect)
            .with_recursion_limit(depth::PARSER_DEPTH_MAX)
            .build();
        let statements = parser.and_then(statement::parse);
        let statements = statements.map_err(|error| hint::of_parse_error(text, error))?;
        let mut normalized = Vec::with_capacity(statements.len());
        for mut statement in statements {
            if let Some(statement) = statement.planned_mut() {
                depth::check(normalize::normalize(statement)?)?;
            }
            normalized.push(statement);
        }
        Ok(normalized)
    })
}

impl Session {
    /// Suspends, resumes or cancels another query.
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

/// A planned statement, ready to run.
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    /// The plan whose scans measure the statement's progress, if it is not `plan`.
    watched: Option<Arc<dyn ExecutionPlan>>,
}

impl Planned {
    /// The plan of a statement that is complete and returns no rows.
    fn nothing() -> Self {
        let plan = EmptyExec::new(Arc::new(Schema::empty()));
        Self { plan: Arc::new(plan), watched: None }
    }
}

impl Drop for Session {
    /// Rolls the transaction back; statements that still run cannot add to it any more.
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction().take() {
            transaction.roll_back();
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// The initial settings of a session.
fn config(engine: &EngineState) -> SessionConfig {
    let partitions = engine.partitions();
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true)
        .with_target_partitions(partitions);
    let options = config.options_mut();
    options.extensions.insert(PagedOptions::default());
    // 0.1 is exactly a tenth.
    options.sql_parser.parse_float_as_decimal = true;
    // The filter that DataFusion derives from an aggregate drops rows that other aggregates of the
    // node need, if those are not of plain columns.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // DataFusion's top-k aggregation panics on zeros of both signs, and cannot spill.
    options.optimizer.enable_topk_aggregation = false;
    // The check rejects keys such as `CASE WHEN a <= b THEN a ELSE 0 END`: only the logical plan
    // knows that they are never null.
    options.execution.skip_physical_aggregate_schema_check = true;
    // TIMESTAMPTZ is a separate type, displayed in this zone.
    options.execution.time_zone = Some("UTC".to_owned());
    options.execution.sort_spill_reservation_bytes =
        sort_reservation_bytes(engine.ledger().budget(), partitions);
    for (name, value) in engine.settings() {
        // They were validated when the engine was opened.
        if let Err(error) = options.set(name, value) {
            tracing::error!(%error, "a session begins without {name} = {value}");
        }
    }
    config
}

/// Bytes that each partition of a sort reserves for merging: DataFusion's 10 MiB, or less if the
/// reservations of all partitions of two sorts would exceed an eighth of the budget.
fn sort_reservation_bytes(budget: u64, partitions: usize) -> usize {
    let sorts = 2 * to_u64(NonZeroUsize::new(partitions).map_or(1, NonZeroUsize::get));
    to_usize((budget / 8 / sorts).clamp(512 * KIB, 10 * MIB))
}

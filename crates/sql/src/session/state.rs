//! State of a session: its settings, its names, its role and its transaction.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use datafusion::arrow::datatypes::Schema;
use datafusion::catalog::{CatalogProviderList, DynamicFileCatalog, MemoryCatalogProviderList};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry as _, SessionState, SessionStateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionConfig;
use object_store::memory::InMemory;
use terrace_cloud::{CloudFiles, UploadStore, VersionStore};
use terrace_exec::PagedOptions;
use terrace_functions::json::JsonSubscripts;
use terrace_functions::lists::ListOperators;
use terrace_governor::running::{Environment, environment};
use terrace_governor::tenancy::Seat;
use terrace_sys::size::{KIB, MIB, to_u64, to_usize};
use terrace_sys::sync::lock;
use terrace_table::catalog::DEFAULT_SCHEMA;
use terrace_table::error::SqlError;
use terrace_table::scan::STORE_URL;
use terrace_table::transaction::{OpenTransaction, Transaction};

use super::enums::listing;
use super::enums::planner::EnumColumns;
use super::function_list;
use super::group_keys::Relations;
use super::notice::Notices;
use super::prepared_statement::NamedStatements;
use super::relations::Special;
use super::routines::routine::Routine;
use super::rules;
use super::setting_names::LocalSetting;
use super::state_copy::StateCopy;
use super::types::ColumnTypes;
use super::unnest::OncePlanner;
use super::{window_distances, window_exclusion};
use crate::engine::EngineState;
use crate::file_tables::{ActingRole, FileAccess, FileFunctions, FileTables, ParquetFormats};
use crate::names::{Added, AddedSchema, CATALOG, MainCatalog, Names, SequenceUse};
use crate::sessions::SessionInfo;
use crate::{functions, scalar, series};

/// Number of sessions opened so far in this process, from which each takes its own number.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A session of an engine, with its settings, external tables, prepared statements and open
/// transaction. Dropping the session rolls the transaction back.
pub struct Session {
    pub(super) engine: Arc<EngineState>,
    pub(super) context: SessionContext,
    /// A copy of the context's state, kept between statements.
    pub(super) copy: StateCopy,
    pub(super) names: Arc<MainCatalog>,
    pub(super) transaction: OpenTransaction,
    /// The role that the session has logged in with; `None` is unrestricted.
    pub(super) login_role: Option<Arc<str>>,
    /// The role that SET ROLE has chosen; `None` if the session acts as its login role.
    pub(super) acting_role: ActingRole,
    /// Remote files, as the planner of the session's statements finds them.
    pub(super) cloud: CloudFiles,
    /// Keeps the session counted among the open sessions of its tenant.
    seat: Option<Arc<Seat>>,
    /// True if transactions are READ ONLY by default.
    pub(super) reads_only: Arc<AtomicBool>,
    /// True once the session has a temporary table with ON COMMIT DELETE ROWS or DROP.
    pub(super) ends_rows: AtomicBool,
    /// Settings to restore at the end of the transaction.
    pub(super) locals: Mutex<Vec<LocalSetting>>,
    /// The statements of PREPARE.
    pub(super) prepared: NamedStatements,
    /// Functions and macros of the session.
    pub(super) routines: Mutex<Vec<Routine>>,
    /// State of the session that other sessions can see.
    pub(super) info: Arc<SessionInfo>,
    pub(super) notices: Notices,
}

impl Session {
    pub(crate) fn of_role(engine: Arc<EngineState>, role: &str) -> Result<Self, SqlError> {
        let missing = || SqlError::MissingRole { name: role.to_owned() };
        let known = engine.catalog().role(role).ok_or_else(missing)?;
        let sit = |tenant: &String| {
            let limit = engine.catalog().tenant(tenant).and_then(|it| it.limits.connections);
            engine.tenancy().sit(tenant, limit).map(Arc::new)
        };
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
        let role = self.login_role.clone();
        Self::acting_for(Arc::clone(&self.engine), role, self.seat.clone(), info)
    }

    fn acting_for(
        engine: Arc<EngineState>,
        role: Option<Arc<str>>,
        seat: Option<Arc<Seat>>,
        info: Option<Arc<SessionInfo>>,
    ) -> Result<Self, SqlError> {
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed) + 1;
        let base = stores(&engine)?;
        // Planning outside of a query, by way of `context`, is accounted for too.
        let name = format!("session {number}");
        let Environment { runtime, .. } = environment(engine.resources(), &base, &name)?;
        let acting_role = ActingRole::default();
        let access = FileAccess::new(Arc::clone(&engine), role.clone(), Arc::clone(&acting_role));
        let (access, transaction) = (Arc::new(access), OpenTransaction::default());
        let cloud = access.cloud().clone();
        let files = Arc::new(FileTables::new(Arc::clone(&access)));
        let (tables, open) = (Arc::clone(&files) as _, transaction.clone());
        let names = Arc::new(MainCatalog::new(Arc::clone(&engine), tables, open, number));
        let catalogs = catalogs(&names, &files);
        let mut state = SessionStateBuilder::new()
            .with_config(config(&engine))
            .with_runtime_env(runtime)
            .with_catalog_list(catalogs)
            .with_expr_planners(vec![Arc::new(JsonSubscripts), Arc::new(ListOperators)])
            .with_default_features()
            .with_analyzer_rules(rules::analyzer())
            .with_optimizer_rules(rules::logical())
            .with_physical_optimizer_rules(rules::physical())
            .with_query_planner(Arc::new(OncePlanner))
            .with_relation_planners(vec![
                Arc::new(Relations),
                Arc::new(FileFunctions::new(access)),
                Arc::new(Special),
            ])
            .with_type_planner(Arc::new(EnumColumns(ColumnTypes)))
            .build();
        let reads_only = Arc::new(AtomicBool::default());
        let sequences =
            SequenceUse::new(role.clone(), Arc::clone(&acting_role), Arc::clone(&reads_only));
        register(&mut state, &names, sequences)?;
        let context = SessionContext::new_with_state(state);
        register_table_functions(&context);
        files.stock().session_store().with_state(context.state_weak_ref());
        let weak = context.state_weak_ref();
        names.attach(Box::new(move || weak.upgrade().map(|state| state.read().clone())));
        let tenant = seat.as_ref().map(|seat| Arc::clone(seat.tenant()));
        let info = info.unwrap_or_else(|| engine.sessions().add(number, role.clone(), tenant));
        info.follow(&transaction);
        let session = Self {
            engine,
            context,
            copy: StateCopy::default(),
            names,
            transaction,
            login_role: role,
            acting_role,
            cloud,
            seat,
            reads_only,
            ends_rows: AtomicBool::default(),
            locals: Mutex::default(),
            routines: Mutex::default(),
            prepared: NamedStatements::default(),
            info,
            notices: Notices::default(),
        };
        session.reset_settings();
        Ok(session)
    }

    /// State of the session that other sessions can see; accounts for its memory outside of
    /// queries.
    #[must_use]
    pub fn info(&self) -> &Arc<SessionInfo> {
        &self.info
    }

    pub(super) fn transaction(&self) -> MutexGuard<'_, Option<Arc<Transaction>>> {
        lock(&self.transaction)
    }

    /// DataFusion's context of the session. Statements run through it are not registered as
    /// queries; use [`Session::execute`] for that.
    #[must_use]
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Adds a schema to those of the database; at most once per session. Its tables are also found
    /// by their bare names, unless the session's default schema has a table of that name.
    pub fn add_schema(&self, schema: Arc<dyn AddedSchema>) {
        self.names.add(Arc::clone(&schema));
        let state = self.context.state_ref();
        let added = Added::new(move |statement| schema.rewrite(statement));
        state.write().config_mut().set_extension(Arc::new(added));
    }

    /// The names of the database, as a statement that begins now would see them.
    #[must_use]
    pub fn names(&self) -> Names {
        self.names.names()
    }

    /// The settings that a session begins with.
    pub(super) fn begun(&self) -> SessionConfig {
        config(&self.engine)
    }

    /// Resets all settings of the session to their initial values.
    pub fn reset_settings(&self) {
        let state = self.context.state_ref();
        let mut begun = config(&self.engine).options().as_ref().clone();
        let role = self.login_role.as_deref().and_then(|role| self.engine.catalog().role(role));
        if let Some(tenant) = role.and_then(|role| role.tenant.clone())
            && let Some(options) = begun.extensions.get_mut::<PagedOptions>()
        {
            options.tenant = tenant;
        }
        *state.write().config_mut().options_mut() = begun;
        self.reads_only.store(false, Ordering::Relaxed);
    }
}

/// The stores that a session reads files from, and writes them to.
fn stores(engine: &EngineState) -> Result<RuntimeEnv, SqlError> {
    let base = RuntimeEnv::default();
    let url = ObjectStoreUrl::parse(STORE_URL)?;
    base.register_object_store(url.as_ref(), Arc::new(InMemory::new()));
    let remote = VersionStore::new(engine.cloud().clone());
    let url = ObjectStoreUrl::parse(terrace_cloud::STORE_URL)?;
    base.register_object_store(url.as_ref(), Arc::new(remote));
    let uploads = UploadStore::new(engine.cloud().clone());
    let url = ObjectStoreUrl::parse(terrace_cloud::UPLOAD_URL)?;
    base.register_object_store(url.as_ref(), Arc::new(uploads));
    Ok(base)
}

/// Registers the functions of a session, and its own format of files.
fn register(
    state: &mut SessionState,
    names: &MainCatalog,
    sequences: SequenceUse,
) -> Result<(), SqlError> {
    state.register_file_format(Arc::new(ParquetFormats::default()), true)?;
    functions::register(state)?;
    let parsing = scalar::parsing(state.scalar_functions());
    for function in scalar::functions().into_iter().chain(parsing).chain(listing::functions()) {
        state.register_udf(function)?;
    }
    let own = names.functions().into_iter().chain(names.sequence_functions(sequences));
    for function in own {
        state.register_udf(Arc::new(function))?;
    }
    state.register_udf(window_distances::mark())?;
    state.register_udf(window_exclusion::mark())?;
    Ok(())
}

/// A planned statement, ready to run.
pub(super) struct Planned {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The plan whose scans measure the statement's progress, if it is not `plan`.
    pub(super) watched: Option<Arc<dyn ExecutionPlan>>,
}

impl Planned {
    /// The plan of a statement that is complete and returns no rows.
    pub(super) fn nothing() -> Self {
        let plan = EmptyExec::new(Arc::new(Schema::empty()));
        Self { plan: Arc::new(plan), watched: None }
    }
}

impl Drop for Session {
    /// Rolls the transaction back; statements that still run cannot add to it any more. Drops the
    /// temporary objects.
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction().take() {
            transaction.roll_back();
        }
        let temporary = self.names.temporary();
        if self.engine.catalog().has_schema(temporary) {
            self.engine.catalog().drop_schema_later(temporary);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("engine", &self.engine).finish_non_exhaustive()
    }
}

/// The catalog of the database, and tables over files by their names.
fn catalogs(names: &Arc<MainCatalog>, files: &Arc<FileTables>) -> Arc<dyn CatalogProviderList> {
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(CATALOG.to_owned(), Arc::clone(names) as _);
    Arc::new(DynamicFileCatalog::new(Arc::new(catalogs), Arc::clone(files) as _))
}

/// The initial settings of a session.
fn config(engine: &EngineState) -> SessionConfig {
    let partitions = engine.partitions();
    let mut config = SessionConfig::new()
        .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
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
/// reservations of all partitions of two sorts would exceed an eighth of the budget, but at least
/// 512 KiB.
fn sort_reservation_bytes(budget: u64, partitions: usize) -> usize {
    let sorts = 2 * to_u64(NonZeroUsize::new(partitions).map_or(1, NonZeroUsize::get));
    to_usize((budget / 8 / sorts).clamp(512 * KIB, 10 * MIB))
}

fn register_table_functions(context: &SessionContext) {
    for (name, function) in series::functions() {
        context.register_udtf(&name, function);
    }
    for (name, function) in function_list::functions() {
        context.register_udtf(name, function);
    }
}

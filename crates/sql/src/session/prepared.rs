//! Prepared statements: planned once and run many times with different parameters.
//!
//! The logical plan is kept without versions of tables. Each run substitutes its values, pins the
//! tables to its own snapshot, and optimizes. If a table, a view or a function has been created,
//! replaced or dropped since, or the session's default schema or role has changed, the statement is
//! planned again; so is, at each run, one that reads files, whose plan knows the files of its
//! planning.

use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, ParamValues, Result as DataFusionResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, Projection, Union};
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use terrace_functions::columns::TextType;
use terrace_functions::lists;
use terrace_governor::pins::Reader;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use super::actions::{drops, like, tables};
use super::client_text::{StatementText, bounded};
use super::constant::Constant;
use super::depth::{self, OnStack};
use super::parts::{self, PartsNode};
use super::prepared_statement::{Kept, Prepared, plan_bytes};
use super::state::{Planned, Session};
use super::statement::SessionStatement;
use super::{
    alter, options, own_settings, returning, row_locks, snapshot, typed_parameters,
    window_distances,
};
use crate::access::{Reading, check_names};
use crate::execution::{QueryHandle, supervised};
use crate::file_tables::reads_files;
use crate::names::Added;
use crate::series;
use crate::sessions::HeldFor;

/// Maximum number of parameters of a statement: PostgreSQL's protocol counts them in 16 bits.
const PARAMETERS_MAX: usize = u16::MAX as usize;

impl Session {
    /// Plans a statement without running it. `types` are the parameter types known to the caller,
    /// `$1` first; the others are inferred.
    ///
    /// # Errors
    /// Errors of planning; [`SqlError::Refused`] for parameters that are not numbered from `$1`.
    pub fn prepare<'a>(
        &'a self,
        statement: SessionStatement,
        types: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        Box::pin(async move {
            let planned = match &statement {
                SessionStatement::Sql(parsed) => Some(parsed.as_ref()),
                SessionStatement::Explain(explain) => Some(explain.statement()),
                _ => None,
            };
            let Some(parsed) = planned.filter(|parsed| !is_own_definition(parsed)) else {
                let (parameters, plan, constant) = (vec![], None, None);
                let schema = statement.fixed_schema();
                let (text, locks_rows) = (StatementText::default(), false);
                let _held = self.info.hold(HeldFor::Prepared, 0);
                return Ok(Prepared {
                    statement,
                    text,
                    parameters,
                    schema,
                    plan,
                    constant,
                    locks_rows,
                    _held,
                });
            };
            own_settings::refuse(parsed)?;
            self.refuse_settings(parsed)?;
            self.follow_engine()?;
            let text = StatementText::new(depth::text_of(&statement));
            let locks_rows = row_locks::may_be_in_text(text.written()) && statement.locks_rows();
            let (state, current) = self.state_in(&self.scope())?;
            let planning = async {
                let statement = row_locks::without(parsed, locks_rows);
                let (kept, parameters) =
                    self.plan_with_parameters(&state, &current, statement, types).await?;
                let schema = Self::schema_of(&kept.plan, &parameters, &state, &current)?;
                // The body of a function may be replaced.
                let constant = match self.has_calls(&state, &current, parsed) {
                    true => None,
                    false => Constant::of(&kept.plan, &state).await,
                };
                Ok((kept, parameters, schema, constant))
            };
            let planning = OnStack::new(text.written(), supervised(Box::pin(planning)));
            let (kept, parameters, schema, constant) = planning.await?;
            let (schema, constant) = match statement.fixed_schema() {
                Some(schema) => (Some(schema), None),
                None => (schema, constant),
            };
            let bytes = to_u64(text.written().len()).saturating_add(plan_bytes(&kept.plan)?);
            let plan = is_kept(&kept.plan).then(|| Mutex::new(kept));
            let _held = self.info.hold(HeldFor::Prepared, bytes);
            Ok(Prepared { statement, text, parameters, schema, plan, constant, locks_rows, _held })
        })
    }

    /// The single row of a constant statement, as a batch, without running it; `None` if it has to
    /// run, also if settings have changed since it was prepared. In a transaction this counts as
    /// one of its statements.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`] in a transaction that has failed.
    pub fn known_rows(&self, prepared: &Prepared) -> Result<Option<RecordBatch>, SqlError> {
        let known = prepared.constant.as_ref().filter(|_| self.is_known(prepared));
        let Some(known) = known else { return Ok(None) };
        // It waits for no lock, and needs no more of the scope than the transaction.
        let transaction = self.transaction().clone();
        if let Some(transaction) = transaction {
            transaction.statement()?;
        }
        Ok(Some(known.rows.clone()))
    }

    /// True if [`Session::known_rows`] returns the row of a statement.
    #[must_use]
    pub fn is_known(&self, prepared: &Prepared) -> bool {
        let state = self.context.state_ref();
        let state = state.read();
        let options = state.config().options();
        prepared.constant.as_ref().is_some_and(|known| Arc::ptr_eq(&known.options, options))
    }

    /// Runs a prepared statement with a value for each of its parameters.
    ///
    /// # Errors
    /// As [`Session::execute`]; [`SqlError::Refused`] for a wrong number of values.
    pub fn execute_prepared<'a>(
        &'a self,
        prepared: &'a Prepared,
        values: Vec<ScalarValue>,
    ) -> BoxFuture<'a, Result<QueryHandle, SqlError>> {
        Box::pin(async move {
            if values.len() != prepared.parameters.len() {
                return Err(SqlError::Refused {
                    what: format!("running a statement with {} values", values.len()),
                    instead: format!("it has {} parameters", prepared.parameters.len()),
                });
            }
            let Some(plan) = &prepared.plan else {
                return self.execute_as(prepared.statement.clone(), prepared.text.said()).await;
            };
            let (text, shown) = (prepared.text.written(), bounded(prepared.text.shown()));
            let scope = self.begin_statement()?;
            let run = |reader: Arc<Reader>| {
                let scope = scope.shown_by(&reader.suspension);
                self.plan_prepared(prepared, plan, values, scope, reader)
            };
            self.start(text, shown, scope.clone(), true, run)
                .await
                .inspect_err(|error| self.failed(error))
        })
    }

    /// The physical plan of a prepared statement.
    async fn plan_prepared(
        &self,
        prepared: &Prepared,
        kept: &Mutex<Kept>,
        values: Vec<ScalarValue>,
        scope: Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        self.follow_engine()?;
        let skipping = match prepared.locks_rows {
            true => self.lock_prepared_rows(&prepared.statement, &scope, &reader).await?,
            false => None,
        };
        let (state, current) = self.state_in(&scope)?;
        let plan = match skipping {
            None => self.current_plan(prepared, kept, &state, &current).await?,
            Some(statement) => {
                let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
                let planned = self.plan_with_parameters(&state, &current, statement, &types);
                planned.await?.0.plan
            }
        };
        let plan = with_values(snapshot::pin(plan, &current)?, values, &state)?;
        match &prepared.statement {
            SessionStatement::Explain(explain) => {
                self.explain_prepared(state, plan, &current, &scope, reader, explain).await
            }
            _ => self.physical_plan(state, plan, &current, &scope, reader).await,
        }
    }

    /// The kept plan of a statement, made again if the meaning of its names may have changed.
    async fn current_plan(
        &self,
        prepared: &Prepared,
        kept: &Mutex<Kept>,
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<LogicalPlan, SqlError> {
        let before = lock(kept).clone();
        let is_same = !before.reads_files
            && before.changes == current.changes()
            && before.default_schema == default_schema(state)
            && before.role == self.role()
            && before.routines == *lock(&self.routines);
        if is_same {
            self.check_names_again(prepared, state, current)?;
            return Ok(before.plan);
        }
        let now = self.plan_again(prepared, state, current).await?;
        *lock(kept) = now.clone();
        Ok(now.plan)
    }

    /// Refuses the names of a statement that its role may not use any more. The tables that it
    /// reads are checked in its plan.
    fn check_names_again(
        &self,
        prepared: &Prepared,
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<(), SqlError> {
        let rights = self.rights(current);
        if rights.limited()?.is_none() {
            return Ok(());
        }
        let mut statement = match &prepared.statement {
            SessionStatement::Sql(statement) => statement.as_ref().clone(),
            SessionStatement::Explain(explain) => explain.statement().clone(),
            _ => return Ok(()),
        };
        Added::rewrite(state, &mut statement);
        Ok(check_names(state, &statement, &rights, Reading::of(&statement))?)
    }

    /// Returns the prepared statement of a PREPARE, from its `statement` and the `plan` that
    /// DataFusion has made of it.
    ///
    /// # Errors
    /// Errors of planning; [`SqlError::Refused`] for a statement that is no query and no change of
    /// rows.
    pub(super) fn kept(
        &self,
        statement: Statement,
        plan: LogicalPlan,
        types: &[Option<DataType>],
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<Prepared, SqlError> {
        if !is_kept(&plan) {
            return Err(SqlError::Refused {
                what: format!("PREPARE of {statement}"),
                instead: "prepare a query, INSERT, UPDATE, DELETE or MERGE".to_owned(),
            });
        }
        let plan = with_types(snapshot::unpinned(plan)?, types)?;
        let parameters = parameters_of(&plan, types)?;
        let schema = Self::schema_of(&plan, &parameters, state, current)?;
        let statement = SessionStatement::Sql(Box::new(statement));
        let text = StatementText::new(depth::text_of(&statement));
        let bytes = to_u64(text.written().len()).saturating_add(plan_bytes(&plan)?);
        let _held = self.info.hold(HeldFor::Prepared, bytes);
        let plan = Some(Mutex::new(self.keep(plan, state, current)));
        let (constant, locks_rows) = (None, false);
        Ok(Prepared { statement, text, parameters, schema, plan, constant, locks_rows, _held })
    }

    /// The logical plan of a run with these values.
    ///
    /// # Errors
    /// Errors of planning; [`SqlError::Refused`] for another number of values.
    pub(super) async fn plan_with_values(
        &self,
        prepared: &Prepared,
        values: Vec<ScalarValue>,
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<LogicalPlan, SqlError> {
        let Some(kept) = &prepared.plan else {
            return Err(SqlError::Task("a prepared statement has no plan".to_owned()));
        };
        let plan = self.current_plan(prepared, kept, state, current).await?;
        Ok(with_values(snapshot::pin(plan, current)?, values, state)?)
    }

    /// Plans a statement again, since its names may have other meanings now.
    async fn plan_again(
        &self,
        prepared: &Prepared,
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<Kept, SqlError> {
        let statement = match &prepared.statement {
            SessionStatement::Sql(statement) => row_locks::without(statement, prepared.locks_rows),
            SessionStatement::Explain(explain) => explain.statement().clone(),
            _ => return Err(SqlError::Task("a plan was kept of no SQL statement".to_owned())),
        };
        let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
        let (kept, parameters) =
            self.plan_with_parameters(state, current, statement, &types).await?;
        let schema = match prepared.statement.fixed_schema() {
            Some(schema) => Some(schema),
            None => Self::schema_of(&kept.plan, &parameters, state, current)?,
        };
        let same = match (&schema, &prepared.schema) {
            (Some(now), Some(before)) => columns_of(now).eq(columns_of(before)),
            (now, before) => now.is_none() && before.is_none(),
        };
        if !same || parameters.len() != prepared.parameters.len() {
            return Err(SqlError::Refused {
                what:
                    "cached plan must not change result type: running a prepared statement whose \
                       columns have other names or types since"
                        .to_owned(),
                instead: "prepare it again".to_owned(),
            });
        }
        Ok(kept)
    }

    /// The logical plan of a statement, and the types of its parameters.
    async fn plan_with_parameters(
        &self,
        state: &SessionState,
        current: &Snapshot,
        mut statement: Statement,
        types: &[Option<DataType>],
    ) -> Result<(Kept, Vec<DataType>), SqlError> {
        options::take(&mut statement)?;
        typed_parameters::write_out(&mut statement, types);
        let plan = self.logical_plan(state, current, statement).await?;
        let plan = with_types(snapshot::unpinned(plan)?, types)?;
        let parameters = parameters_of(&plan, types)?;
        Ok((self.keep(plan, state, current), parameters))
    }

    /// A plan to keep, with the state of catalog and session that its names were resolved in.
    fn keep(&self, plan: LogicalPlan, state: &SessionState, current: &Snapshot) -> Kept {
        let (changes, default_schema) = (current.changes(), default_schema(state).to_owned());
        let (role, routines) = (self.role(), lock(&self.routines).clone());
        let reads_files = reads_files(&plan);
        Kept { plan, changes, default_schema, role, routines, reads_files }
    }

    /// A state of the session that resolves names in the current catalog, and a snapshot of it.
    pub(super) fn state_in(&self, scope: &Scope) -> Result<(SessionState, Snapshot), SqlError> {
        let current = scope.snapshot(self.engine.catalog())?;
        let mut state = self.copy.take(&self.context);
        self.names.resolve_in(&mut state, &current);
        Ok((state, current))
    }

    /// The columns of a plan's rows, after analysis; `None` if it returns no rows.
    fn schema_of(
        plan: &LogicalPlan,
        parameters: &[DataType],
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<Option<SchemaRef>, SqlError> {
        let plan = parts::of(plan).map_or(plan, PartsNode::main);
        if !returns_rows(plan) {
            return Ok(None);
        }
        let nulls = parameters.iter().map(ScalarValue::try_from);
        let nulls = nulls.collect::<DataFusionResult<Vec<_>>>()?;
        let plan = with_values(snapshot::pin(plan.clone(), current)?, nulls, state)?;
        let plan = match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => plan,
            // The expressions of the change are over more columns than its input has.
            plan if returning::of(&plan).is_some() => plan,
            plan => state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?,
        };
        let fields = plan.schema().fields().iter().cloned();
        Ok(Some(Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
    }
}

/// True for a definition that DataFusion does not plan.
fn is_own_definition(statement: &Statement) -> bool {
    alter::of(statement).is_some()
        || like::of(statement).is_some()
        || drops::of(statement).is_some()
        || tables::of(statement).is_some()
}

/// The session's default schema.
fn default_schema(state: &SessionState) -> &str {
    &state.config_options().catalog.default_schema
}

/// Substitutes values for the parameters of a plan, `$1` first.
fn with_values(
    plan: LogicalPlan,
    values: Vec<ScalarValue>,
    state: &SessionState,
) -> DataFusionResult<LogicalPlan> {
    let value = |id: &str| values.get(number(id)? - 1).cloned();
    let plan = series::with_values(plan, state, value)?;
    let values = values.into_iter().map(ScalarAndMetadata::from).collect();
    plan.with_param_values(ParamValues::List(values))
}

fn columns_of(schema: &SchemaRef) -> impl Iterator<Item = (&String, &DataType)> {
    schema.fields().iter().map(|field| (field.name(), field.data_type()))
}

/// True for a plan that can be run repeatedly. A definition, a setting or a COPY is planned at each
/// run.
fn is_kept(plan: &LogicalPlan) -> bool {
    let plan = parts::of(plan).map_or(plan, PartsNode::main);
    !matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Copy(_))
}

fn returns_rows(plan: &LogicalPlan) -> bool {
    is_kept(plan) && !matches!(plan, LogicalPlan::Dml(_))
}

/// The number of a parameter: 1 for `$1`.
fn number(id: &str) -> Option<usize> {
    let number = id.strip_prefix('$')?.parse().ok()?;
    (1..=PARAMETERS_MAX).contains(&number).then_some(number)
}

/// Sets the types of a plan's parameters: those that the caller knows, and those that DataFusion
/// does not infer, of casts, of limits and of columns of a union.
fn with_types(plan: LogicalPlan, types: &[Option<DataType>]) -> DataFusionResult<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let used_as = matches!(node, LogicalPlan::Limit(_)).then_some(DataType::Int64);
        let typed = |expr: Expr| {
            let Expr::Placeholder(Placeholder { id, field }) = expr else {
                return Ok(Transformed::no(expr));
            };
            let known = number(&id).and_then(|number| types.get(number - 1)?.clone());
            let field = match (known, field) {
                (None, Some(field)) => Some(with_mark(&field)),
                (known, None) => known.or_else(|| used_as.clone()).map(parameter),
                (Some(known), Some(_)) => Some(parameter(known)),
            };
            Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field })))
        };
        let schema = merge_schema(&node.inputs());
        let node = node.map_expressions(|expr| {
            let expr = expr.transform_up(typed_by_cast)?.transform_data(|expr| {
                expr.transform_up(|expr| window_distances::typed(expr, &schema))
            })?;
            expr.transform_data(|expr| expr.transform_up(|expr| typed_by_element(expr, &schema)))
        })?;
        let node =
            node.transform_data(|node| node.map_expressions(|expr| expr.transform_up(typed)))?;
        // Nodes above take their types from here.
        node.map_data(|node| match node {
            LogicalPlan::Union(union) => typed_union(union)?.recompute_schema(),
            node => node.recompute_schema(),
        })
    });
    Ok(plan?.data)
}

/// Gives the parameter of a cast the target type of the cast, as PostgreSQL does.
fn typed_by_cast(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field: target }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let data_type = target.data_type();
    let (inner, is_typed) = match *inner {
        // Clients send intervals as texts.
        Expr::Placeholder(Placeholder { id, field: None })
            if !matches!(data_type, DataType::Interval(_)) =>
        {
            let field = Some(with_mark(&target));
            (Expr::Placeholder(Placeholder { id, field }), true)
        }
        inner => (inner, false),
    };
    let cast = Expr::Cast(Cast { expr: Box::new(inner), field: target });
    Ok(if is_typed { Transformed::yes(cast) } else { Transformed::no(cast) })
}

/// Gives the parameter of `x = ANY($1)`, `x < ALL($1)` or `array_has($1, x)` the list type over the
/// type of `x`.
fn typed_by_element(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let mut is_typed = false;
    if ["array_has", lists::ANY, lists::ALL].contains(&call.name())
        && let [Expr::Placeholder(Placeholder { field: field @ None, .. }), element, ..] =
            call.args.as_mut_slice()
        && let Ok(element) = element.get_type(schema)
        && !element.is_null()
    {
        *field = Some(parameter(DataType::new_list(element, true)));
        is_typed = true;
    }
    let expr = Expr::ScalarFunction(call);
    Ok(if is_typed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// The field of a parameter that is compared with values of a field, or stored in it. Of texts with
/// a maximum length, those of different lengths are of one type.
fn with_mark(field: &Field) -> FieldRef {
    let plain = parameter(field.data_type().clone());
    match TextType::of(field) {
        Some(of @ (TextType::Uuid | TextType::Json | TextType::Jsonb)) => {
            Arc::new(of.field("").with_data_type(field.data_type().clone()))
        }
        _ => plain,
    }
}

impl Prepared {
    /// The types of the parameters that are values of a text type, `$1` first; `None` for others.
    #[must_use]
    pub fn text_types(&self) -> Vec<Option<TextType>> {
        let mut types = vec![None; self.parameters.len()];
        let Some(kept) = &self.plan else { return types };
        for (id, field) in lock(kept).plan.get_parameter_fields().unwrap_or_default() {
            let place = number(&id).and_then(|number| types.get_mut(number - 1));
            if let (Some(place), Some(field)) = (place, field) {
                *place = TextType::of(&field);
            }
        }
        types
    }
}

fn parameter(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

/// Gives each parameter that is a column of a union's input the type of that column in the other
/// inputs.
fn typed_union(union: Union) -> DataFusionResult<LogicalPlan> {
    let types: Vec<_> = union.schema.fields().iter().map(|field| field.data_type()).collect();
    let typed = |input: Arc<LogicalPlan>| -> DataFusionResult<Arc<LogicalPlan>> {
        let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(input) };
        let mut columns = types.iter();
        let exprs = projection.expr.iter().map(|expr| {
            let column = columns.next().filter(|column| !column.is_null());
            match (expr.clone().unalias(), column) {
                (Expr::Placeholder(Placeholder { id, field: None }), Some(column)) => {
                    let name = expr.schema_name().to_string();
                    let field = Some(parameter((*column).clone()));
                    Expr::Placeholder(Placeholder { id, field }).alias(name)
                }
                _ => expr.clone(),
            }
        });
        let exprs = exprs.collect();
        let input = Projection::try_new(exprs, Arc::clone(&projection.input))?;
        Ok(Arc::new(LogicalPlan::Projection(input)))
    };
    let inputs = union.inputs.into_iter().map(typed).collect::<DataFusionResult<_>>()?;
    Ok(LogicalPlan::Union(Union { inputs, schema: union.schema }))
}

/// The types of all parameters; a text for one that is unused or has an undetermined type.
fn parameters_of(
    plan: &LogicalPlan,
    types: &[Option<DataType>],
) -> Result<Vec<DataType>, SqlError> {
    let of_series = series::parameters(plan)?.into_iter();
    let of_series = of_series.map(|(id, data_type)| (id, Some(data_type)));
    let mut parameters: Vec<Option<DataType>> = types.to_vec();
    for (id, data_type) in plan.get_parameter_types()?.into_iter().chain(of_series) {
        let Some(number) = number(&id) else {
            return Err(SqlError::Refused {
                what: format!("the parameter {id}"),
                instead: format!("parameters are $1 to ${PARAMETERS_MAX}"),
            });
        };
        if parameters.len() < number {
            parameters.resize(number, None);
        }
        if parameters[number - 1].is_none() {
            parameters[number - 1] = data_type;
        }
    }
    let known = |data_type: Option<DataType>| match data_type {
        None | Some(DataType::Null) => DataType::Utf8,
        Some(data_type) => data_type,
    };
    Ok(parameters.into_iter().map(known).collect())
}

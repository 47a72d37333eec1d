//! Statements that are planned once and run with other parameters each time.
//!
//! The logical plan is kept without versions of tables. Each run puts its values in, takes the
//! tables as of its own snapshot, and optimises. Where a table or a view has been made, replaced or
//! dropped since, or the session looks for names elsewhere, the statement is planned anew.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, Result as DataFusionResult, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{Cast, Placeholder};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, Projection, Union};
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use terrace_sys::size::to_u64;

use super::constant::Constant;
use super::depth::{self, OnStack};
use super::{Planned, Session, SessionStatement, options, settings, snapshot};
use crate::catalog::Snapshot;
use crate::error::SqlError;
use crate::pins::Reader;
use crate::query::{QueryHandle, supervised};
use crate::series;
use crate::sessions::{HeldBytes, HeldFor};
use crate::transaction::Scope;

/// Most parameters of a statement: the protocol of PostgreSQL counts them in 16 bits.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// A statement that has been planned, with `$1`, `$2` and so on in place of values.
#[derive(Debug)]
pub struct Prepared {
    statement: SessionStatement,
    parameters: Vec<DataType>,
    schema: Option<SchemaRef>,
    /// None of a statement that is planned when it runs.
    plan: Option<Mutex<Kept>>,
    /// None of a statement that has to run for its rows.
    constant: Option<Constant>,
    _held: HeldBytes,
}

/// A logical plan without versions of tables, and what its names stand for.
#[derive(Clone, Debug)]
struct Kept {
    plan: LogicalPlan,
    /// [`Snapshot::changes`] when it was planned.
    changes: u64,
    default_schema: String,
}

impl Prepared {
    /// The statement.
    #[must_use]
    pub fn statement(&self) -> &SessionStatement {
        &self.statement
    }

    /// The types of its parameters, `$1` first. One whose type nothing says is a text.
    #[must_use]
    pub fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The columns of its rows; none of a statement that returns no rows: a definition, a setting,
    /// or a change of rows, whose only row is their number.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// True of a statement that reads nothing and whose only row is the same in each run, with the
    /// settings that it was prepared under: [`Session::known_rows`].
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.constant.is_some()
    }
}

impl Session {
    /// Plans a statement without running it. `types` are those that the caller knows of its
    /// parameters, `$1` first; the others are found out from how they are used.
    ///
    /// # Errors
    /// Those of planning; [`SqlError::Refused`] for parameters that are not numbered from `$1`.
    pub fn prepare<'a>(
        &'a self,
        statement: SessionStatement,
        types: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        Box::pin(async move {
            let SessionStatement::Sql(parsed) = &statement else {
                let (parameters, schema, plan, constant) = (vec![], None, None, None);
                let _held = self.info.hold(HeldFor::Prepared, 0);
                return Ok(Prepared { statement, parameters, schema, plan, constant, _held });
            };
            settings::refuse(parsed)?;
            self.refuse_settings(parsed)?;
            self.follow_engine()?;
            let text = depth::text_of(&statement);
            let (state, current) = self.state_in(&self.scope())?;
            let planning = async {
                let statement = parsed.as_ref().clone();
                let (kept, parameters) =
                    self.plan_with_parameters(&state, &current, statement, types).await?;
                let schema = Self::schema_of(&kept.plan, &parameters, &state, &current)?;
                let constant = Constant::of(&kept.plan, &state).await;
                Ok((kept, parameters, schema, constant))
            };
            let planning = OnStack::new(&text, supervised(Box::pin(planning)));
            let (kept, parameters, schema, constant) = planning.await?;
            let bytes = to_u64(text.len()).saturating_add(plan_bytes(&kept.plan)?);
            let plan = is_kept(&kept.plan).then(|| Mutex::new(kept));
            let _held = self.info.hold(HeldFor::Prepared, bytes);
            Ok(Prepared { statement, parameters, schema, plan, constant, _held })
        })
    }

    /// The only row of a statement that reads nothing, in a batch of its own, without a run; none
    /// where it has to run, because there are other settings than it was prepared under too. In a
    /// transaction it counts as one of its statements.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`] in a transaction that has failed.
    pub fn known_rows(&self, prepared: &Prepared) -> Result<Option<RecordBatch>, SqlError> {
        let known = prepared.constant.as_ref().filter(|_| self.is_known(prepared));
        let Some(known) = known else { return Ok(None) };
        self.begin_statement()?;
        Ok(Some(known.rows.clone()))
    }

    /// True if [`Session::known_rows`] knows the row of a statement.
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
    /// As [`Session::execute`]; [`SqlError::Refused`] for another number of values.
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
                return self.execute(prepared.statement.clone()).await;
            };
            let text = depth::text_of(&prepared.statement);
            let scope = self.begin_statement()?;
            let run = |reader| self.plan_prepared(prepared, plan, values, scope.clone(), reader);
            self.start(text, scope.clone(), true, run).await.inspect_err(|error| self.failed(error))
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
        let (state, current) = self.state_in(&scope)?;
        let before = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_current =
            before.changes == current.changes() && before.default_schema == default_schema(&state);
        let plan = match is_current {
            true => before.plan,
            false => {
                let now = self.plan_again(prepared, &state, &current).await?;
                *kept.lock().unwrap_or_else(PoisonError::into_inner) = now.clone();
                now.plan
            }
        };
        let plan = with_values(snapshot::pin(plan, &current)?, values, &state)?;
        self.physical_plan(state, plan, &current, &scope, reader).await
    }

    /// Plans a statement whose names may stand for something else since.
    async fn plan_again(
        &self,
        prepared: &Prepared,
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<Kept, SqlError> {
        let Some(statement) = prepared.statement.clone().into_sql() else {
            return Err(SqlError::Task("a plan was kept of no SQL statement".to_owned()));
        };
        let types: Vec<_> = prepared.parameters.iter().cloned().map(Some).collect();
        let (kept, parameters) =
            self.plan_with_parameters(state, current, statement, &types).await?;
        let schema = Self::schema_of(&kept.plan, &parameters, state, current)?;
        let same = match (&schema, &prepared.schema) {
            (Some(now), Some(before)) => columns_of(now).eq(columns_of(before)),
            (now, before) => now.is_none() && before.is_none(),
        };
        if !same || parameters.len() != prepared.parameters.len() {
            return Err(SqlError::Refused {
                what: "running a prepared statement whose columns have other names or types since"
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
        options::take_encoding(&mut statement)?;
        let plan = self.logical_plan(state, current, statement).await?;
        let plan = with_types(snapshot::unpinned(plan)?, types)?;
        let parameters = parameters_of(&plan, types)?;
        let (changes, default_schema) = (current.changes(), default_schema(state).to_owned());
        Ok((Kept { plan, changes, default_schema }, parameters))
    }

    /// A state of the session that resolves names in the catalog as it is now, and the catalog.
    pub(super) fn state_in(&self, scope: &Scope) -> Result<(SessionState, Snapshot), SqlError> {
        let current = scope.snapshot(self.engine.catalog())?;
        let mut state = self.context.state();
        self.names.resolve_in(&mut state, &current);
        Ok((state, current))
    }

    /// The columns of the rows of a plan, once it is analysed.
    fn schema_of(
        plan: &LogicalPlan,
        parameters: &[DataType],
        state: &SessionState,
        current: &Snapshot,
    ) -> Result<Option<SchemaRef>, SqlError> {
        if !returns_rows(plan) {
            return Ok(None);
        }
        let nulls = parameters.iter().map(ScalarValue::try_from);
        let nulls = nulls.collect::<DataFusionResult<Vec<_>>>()?;
        let plan = with_values(snapshot::pin(plan.clone(), current)?, nulls, state)?;
        let plan = match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => plan,
            plan => state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?,
        };
        let fields = plan.schema().fields().iter().cloned();
        Ok(Some(Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
    }
}

/// The schema in which a session looks for names without one.
fn default_schema(state: &SessionState) -> &str {
    &state.config_options().catalog.default_schema
}

/// The plan with values in place of its parameters, `$1` first.
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

/// True of a plan that can be run again and again. A definition, a setting or a COPY is planned
/// when it runs.
fn is_kept(plan: &LogicalPlan) -> bool {
    !matches!(plan, LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Copy(_))
}

fn returns_rows(plan: &LogicalPlan) -> bool {
    is_kept(plan) && !matches!(plan, LogicalPlan::Dml(_))
}

/// The number of a parameter: 1 of `$1`.
fn number(id: &str) -> Option<usize> {
    let number = id.strip_prefix('$')?.parse().ok()?;
    (1..=PARAMETERS_MAX).contains(&number).then_some(number)
}

/// The plan with types of its parameters: those that the caller knows, and those that DataFusion
/// has not found out, of casts, of limits and of columns of a union.
fn with_types(plan: LogicalPlan, types: &[Option<DataType>]) -> DataFusionResult<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let used_as = matches!(node, LogicalPlan::Limit(_)).then_some(DataType::Int64);
        let typed = |expr: Expr| {
            let Expr::Placeholder(Placeholder { id, field }) = expr else {
                return Ok(Transformed::no(expr));
            };
            let known = number(&id).and_then(|number| types.get(number - 1)?.clone());
            let field = match (known, field) {
                (None, Some(field)) => Some(field),
                (known, None) => known.or_else(|| used_as.clone()).map(parameter),
                (Some(known), Some(_)) => Some(parameter(known)),
            };
            Ok(Transformed::yes(Expr::Placeholder(Placeholder { id, field })))
        };
        let schema = merge_schema(&node.inputs());
        let node = node.map_expressions(|expr| {
            let expr = expr.transform_up(typed_by_cast)?;
            expr.transform_data(|expr| expr.transform_up(|expr| typed_by_element(expr, &schema)))
        })?;
        let node =
            node.transform_data(|node| node.map_expressions(|expr| expr.transform_up(typed)))?;
        // What is above takes its types from here.
        node.map_data(|node| match node {
            LogicalPlan::Union(union) => typed_union(union)?.recompute_schema(),
            node => node.recompute_schema(),
        })
    });
    Ok(plan?.data)
}

/// Gives a parameter that is cast the type that it is cast to, as PostgreSQL does.
fn typed_by_cast(expr: Expr) -> DataFusionResult<Transformed<Expr>> {
    let Expr::Cast(Cast { expr: inner, field: target }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let data_type = target.data_type();
    let (inner, is_typed) = match *inner {
        // Clients write intervals as texts.
        Expr::Placeholder(Placeholder { id, field: None })
            if !matches!(data_type, DataType::Interval(_)) =>
        {
            let field = Some(parameter(data_type.clone()));
            (Expr::Placeholder(Placeholder { id, field }), true)
        }
        inner => (inner, false),
    };
    let cast = Expr::Cast(Cast { expr: Box::new(inner), field: target });
    Ok(if is_typed { Transformed::yes(cast) } else { Transformed::no(cast) })
}

/// Gives the parameter of `x = ANY($1)` the type of lists of `x`.
fn typed_by_element(expr: Expr, schema: &DFSchema) -> DataFusionResult<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
    let mut is_typed = false;
    if call.name() == "array_has"
        && let [Expr::Placeholder(Placeholder { field: field @ None, .. }), element] =
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

fn parameter(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

/// The union with a type of each parameter that is a column of one of its inputs: that of the
/// column in the others.
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

/// The types of all parameters; one in between that is not used is a text, as one whose type
/// nothing says.
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

/// An estimate of the bytes of a logical plan: its nodes, their expressions, values and columns.
fn plan_bytes(plan: &LogicalPlan) -> Result<u64, SqlError> {
    let mut bytes = 0;
    plan.apply_with_subqueries(|node| {
        let columns: usize = node.schema().fields().iter().map(|field| field.size()).sum();
        bytes += size_of::<LogicalPlan>() + columns;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                bytes += match expr {
                    Expr::Literal(value, _) => size_of::<Expr>() + value.size(),
                    _ => size_of::<Expr>(),
                };
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(to_u64(bytes))
}

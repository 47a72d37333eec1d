//! Decimal arithmetic in 64 bits, where the values allow it.
//!
//! A decimal of SQL takes 128 bits in Arrow, whose kernels check for an overflow of 128 bits after
//! every operation, one column at a time. The values of most columns fit in 64 bits, and so do
//! their sums and products: `price * (1 - discount) * (1 + tax)` needs 45. Here a whole expression
//! of sums, differences and products is computed for a thousand rows at a time, in registers of 64
//! bits, once a bound on the width of its inputs shows that no step can overflow. Otherwise
//! DataFusion's own expression computes the batch, and reports any error.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{Array, AsArray, Decimal128Array, RecordBatch};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::arithmetic::CheckedArithmetic;

/// Rows per chunk: their intermediate values fit the L1 cache together.
const CHUNK_ROWS: usize = 1024;
/// Maximum magnitude of a value in bits: one of 64 is the sign, and the bound `2^63` itself does
/// not fit.
const BITS_MAX: u32 = 62;

type Expr = Arc<dyn PhysicalExpr>;
type Node = Arc<dyn ExecutionPlan>;

/// Replaces decimal sums, differences and products in the expressions of `node` by 64-bit
/// arithmetic, if it is a projection or an aggregation of values. Its results stay the same, to the
/// last digit.
///
/// # Errors
/// DataFusion's, for the expressions.
pub(crate) fn narrow_node(node: Node) -> Result<Node> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return Ok(narrow_projection(projection)?.unwrap_or(node));
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return Ok(narrow_aggregate(aggregate)?.unwrap_or(node));
    }
    Ok(node)
}

/// Returns the projection with 64-bit arithmetic; `None` if it has no such expressions, or if the
/// output would lose known orders or partitions.
fn narrow_projection(projection: &ProjectionExec) -> Result<Option<Node>> {
    let input = projection.input();
    let schema = input.schema();
    let (mut changed, mut exprs) = (false, Vec::new());
    for expr in projection.expr() {
        let narrowed = narrow(Arc::clone(&expr.expr), &schema)?;
        changed |= narrowed.transformed;
        exprs.push(ProjectionExpr { expr: narrowed.data, alias: expr.alias.clone() });
    }
    if !changed {
        return Ok(None);
    }
    let narrowed = ProjectionExec::try_new_with_schema_metadata(
        exprs,
        Arc::clone(input),
        &projection.schema(),
    )?;
    let (new, old) = (narrowed.properties(), projection.properties());
    let orders = [new, old].map(|known| known.equivalence_properties().oeq_class());
    let partitions = [new, old].map(|known| known.output_partitioning());
    let is_same = orders[0] == orders[1] && partitions[0] == partitions[1];
    Ok(is_same.then(|| Arc::new(narrowed) as Node))
}

fn narrow_aggregate(aggregate: &AggregateExec) -> Result<Option<Node>> {
    if aggregate.mode().input_mode() == AggregateInputMode::Partial {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let (mut changed, mut functions) = (false, Vec::new());
    for function in aggregate.aggr_expr() {
        // A recreated function forgets that it takes its order backwards.
        if function.is_reversed() || !function.order_bys().is_empty() {
            functions.push(Arc::clone(function));
            continue;
        }
        let mut arguments = Vec::new();
        let mut is_new = false;
        for argument in function.expressions() {
            let narrowed = narrow(argument, &schema)?;
            is_new |= narrowed.transformed;
            arguments.push(narrowed.data);
        }
        let new = match is_new {
            true => function.with_new_expressions(arguments, Vec::new()).map(Arc::new),
            false => None,
        };
        changed |= new.is_some();
        functions.push(new.unwrap_or_else(|| Arc::clone(function)));
    }
    Ok(changed.then(|| Arc::new(aggregate.with_new_aggr_exprs(functions)) as Node))
}

fn narrow(expr: Expr, schema: &Schema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        Ok(match Narrow::new(&expr, schema) {
            Some(narrow) => {
                Transformed::new(Arc::new(narrow) as Expr, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(expr),
        })
    })
}

/// An expression of decimals, with a program that computes it in 64 bits.
#[derive(Debug)]
struct Narrow {
    stock: Expr,
    program: Program,
    /// True once values were too wide; the program is not tried again.
    is_wide: AtomicBool,
}

#[derive(Clone, Debug)]
struct Program {
    /// Inputs: the subexpressions that are not arithmetic, mostly columns.
    leaves: Vec<Expr>,
    /// Operations in the order of their execution; the last one computes the result.
    steps: Vec<Step>,
    precision: u8,
    scale: i8,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    what: What,
    left: Operand,
    right: Operand,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Add,
    Subtract,
    Multiply,
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Leaf(usize),
    Constant(i64),
    Step(usize),
}

/// Compiler of a program.
struct Writer<'a> {
    schema: &'a Schema,
    leaves: Vec<Expr>,
    steps: Vec<Step>,
}

impl Writer<'_> {
    /// Compiles `expr` to an operand, and returns its scale too; `None` if it is not a decimal of
    /// 128 bits, or a constant that does not fit 64.
    fn operand(&mut self, expr: &Expr) -> Option<(Operand, i8)> {
        let DataType::Decimal128(_, scale) = expr.data_type(self.schema).ok()? else { return None };
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let ScalarValue::Decimal128(Some(value), ..) = literal.value() else { return None };
            return Some((Operand::Constant(i64::try_from(*value).ok()?), scale));
        }
        if let Some(step) = self.step(expr, scale) {
            self.steps.push(step);
            return Some((Operand::Step(self.steps.len() - 1), scale));
        }
        // Only columns are shared: other expressions may return another value each time.
        let column = expr.downcast_ref::<Column>();
        let known = column.and_then(|_| self.leaves.iter().position(|leaf| leaf == expr));
        let leaf = known.unwrap_or_else(|| {
            self.leaves.push(Arc::clone(expr));
            self.leaves.len() - 1
        });
        Some((Operand::Leaf(leaf), scale))
    }

    /// Compiles `expr` to an operation whose result has `scale`; `None` if `expr` is no sum,
    /// difference or product of decimals, which makes it a leaf.
    fn step(&mut self, expr: &Expr, scale: i8) -> Option<Step> {
        let (operator, left, right) = arithmetic(expr)?;
        let what = match operator {
            Operator::Plus => What::Add,
            Operator::Minus => What::Subtract,
            Operator::Multiply => What::Multiply,
            _ => return None,
        };
        let written = (self.leaves.len(), self.steps.len());
        let step = self.operands((left, right), what, scale);
        if step.is_none() {
            self.leaves.truncate(written.0);
            self.steps.truncate(written.1);
        }
        step.map(|(left, right)| Step { what, left, right })
    }

    fn operands(
        &mut self,
        (left, right): (&Expr, &Expr),
        what: What,
        scale: i8,
    ) -> Option<(Operand, Operand)> {
        let (left, left_scale) = self.operand(left)?;
        let (right, right_scale) = self.operand(right)?;
        match what {
            What::Multiply => {
                (left_scale.checked_add(right_scale)? == scale).then_some((left, right))
            }
            What::Add | What::Subtract => {
                let left = self.scaled(left, scale.checked_sub(left_scale)?)?;
                Some((left, self.scaled(right, scale.checked_sub(right_scale)?)?))
            }
        }
    }

    /// Returns `operand` with its scale raised by `digits`: multiplied by a power of ten.
    fn scaled(&mut self, operand: Operand, digits: i8) -> Option<Operand> {
        let times = 10_i64.checked_pow(u32::try_from(digits).ok()?)?;
        match operand {
            operand if times == 1 => Some(operand),
            Operand::Constant(value) => value.checked_mul(times).map(Operand::Constant),
            operand => {
                let right = Operand::Constant(times);
                self.steps.push(Step { what: What::Multiply, left: operand, right });
                Some(Operand::Step(self.steps.len() - 1))
            }
        }
    }
}

/// Returns the operator and the operands of a binary expression or of a [`CheckedArithmetic`];
/// `None` for any other expression.
fn arithmetic(expr: &Expr) -> Option<(Operator, &Expr, &Expr)> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return Some((*binary.op(), binary.left(), binary.right()));
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let checked = function.fun().inner().downcast_ref::<CheckedArithmetic>()?;
    let [left, right] = function.args() else { return None };
    Some((checked.operator(), left, right))
}

impl Narrow {
    /// Compiles the arithmetic at the root of `expr`; `None` if the root is no decimal arithmetic,
    /// or if all operands are constants.
    fn new(expr: &Expr, schema: &Schema) -> Option<Self> {
        arithmetic(expr)?;
        let DataType::Decimal128(precision, scale) = expr.data_type(schema).ok()? else {
            return None;
        };
        let mut writer = Writer { schema, leaves: Vec::new(), steps: Vec::new() };
        let (Operand::Step(_), _) = writer.operand(expr)? else { return None };
        let Writer { leaves, steps, .. } = writer;
        if leaves.is_empty() {
            return None;
        }
        let program = Program { leaves, steps, precision, scale };
        Some(Self { stock: Arc::clone(expr), program, is_wide: AtomicBool::new(false) })
    }
}

impl Program {
    /// Computes the result for every row of `batch`; `None` if a step may need more than 64 bits.
    fn run(&self, batch: &RecordBatch) -> Result<Option<Decimal128Array>> {
        let mut leaves = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            leaves.push(match leaf.evaluate(batch)? {
                ColumnarValue::Array(array) => array,
                ColumnarValue::Scalar(_) => return Ok(None),
            });
        }
        let values = leaves.iter().map(|leaf| leaf.as_primitive::<Decimal128Type>().values());
        let values: Vec<&[i128]> = values.map(|values| values.as_ref()).collect();
        let Some(results) = self.values(&values, batch.num_rows()) else { return Ok(None) };
        let nulls = NullBuffer::union_many(leaves.iter().map(|leaf| leaf.nulls()));
        let array = Decimal128Array::new(ScalarBuffer::from(results), nulls);
        Ok(Some(array.with_precision_and_scale(self.precision, self.scale)?))
    }

    fn values(&self, leaves: &[&[i128]], rows: usize) -> Option<Vec<i128>> {
        let mut registers = Registers::new(self.leaves.len() + self.steps.len());
        let mut results = Vec::with_capacity(rows);
        for from in (0..rows).step_by(CHUNK_ROWS) {
            let until = rows.min(from + CHUNK_ROWS);
            for (leaf, values) in leaves.iter().enumerate() {
                registers.load(leaf, &values[from..until])?;
            }
            for (index, step) in self.steps.iter().enumerate() {
                registers.apply(self.leaves.len(), index, *step, until - from)?;
            }
            let last = registers.values.last()?;
            results.extend(last[..until - from].iter().map(|value| i128::from(*value)));
        }
        Some(results)
    }
}

/// Columns of a chunk of rows: the leaves of a program, then the results of its steps.
struct Registers {
    values: Vec<Box<[i64; CHUNK_ROWS]>>,
    /// For each column, a bound: no value is less than `-2^bits` or more than `2^bits`.
    bits: Vec<u32>,
}

impl Registers {
    fn new(count: usize) -> Self {
        let values = (0..count).map(|_| Box::new([0; CHUNK_ROWS])).collect();
        Self { values, bits: vec![0; count] }
    }

    /// Loads a leaf's values; `None` if one of them needs more than `BITS_MAX` bits.
    fn load(&mut self, leaf: usize, values: &[i128]) -> Option<()> {
        let (mut high, mut magnitude) = (0_i64, 0_i64);
        for (narrow, value) in self.values[leaf].iter_mut().zip(values) {
            #[expect(clippy::cast_possible_truncation, reason = "the upper half is looked at")]
            let (low, upper) = (*value as i64, (*value >> 64) as i64);
            let sign = low >> 63;
            high |= upper ^ sign;
            magnitude |= low ^ sign;
            *narrow = low;
        }
        self.bits[leaf] = i64::BITS - magnitude.leading_zeros();
        (high == 0 && self.bits[leaf] <= BITS_MAX).then_some(())
    }

    /// Computes step `index` for `rows` rows from the registers before it; `None` if it might
    /// overflow.
    fn apply(&mut self, leaves: usize, index: usize, step: Step, rows: usize) -> Option<()> {
        let own = leaves + index;
        let (before, after) = self.values.split_at_mut(own);
        let bits = &self.bits;
        let operand = |operand: Operand| match operand {
            Operand::Leaf(leaf) => (Values::Column(&before[leaf][..rows]), bits[leaf]),
            Operand::Step(step) => {
                (Values::Column(&before[leaves + step][..rows]), bits[leaves + step])
            }
            Operand::Constant(value) => {
                (Values::Constant(value), i64::BITS - (value ^ (value >> 63)).leading_zeros())
            }
        };
        let ((left, left_bits), (right, right_bits)) = (operand(step.left), operand(step.right));
        let bits = match step.what {
            What::Add | What::Subtract => left_bits.max(right_bits) + 1,
            What::Multiply => left_bits + right_bits,
        };
        if bits > BITS_MAX {
            return None;
        }
        self.bits[own] = bits;
        let out = &mut after[0][..rows];
        // The bound guarantees that none of them wraps.
        match step.what {
            What::Add => each(out, left, right, i64::wrapping_add),
            What::Subtract => each(out, left, right, i64::wrapping_sub),
            What::Multiply => each(out, left, right, i64::wrapping_mul),
        }
        Some(())
    }
}

#[derive(Clone, Copy)]
enum Values<'a> {
    Column(&'a [i64]),
    Constant(i64),
}

fn each(out: &mut [i64], left: Values<'_>, right: Values<'_>, what: impl Fn(i64, i64) -> i64) {
    match (left, right) {
        (Values::Column(left), Values::Column(right)) => {
            for ((out, left), right) in out.iter_mut().zip(left).zip(right) {
                *out = what(*left, *right);
            }
        }
        (Values::Column(left), Values::Constant(right)) => {
            for (out, left) in out.iter_mut().zip(left) {
                *out = what(*left, right);
            }
        }
        (Values::Constant(left), Values::Column(right)) => {
            for (out, right) in out.iter_mut().zip(right) {
                *out = what(left, *right);
            }
        }
        (Values::Constant(left), Values::Constant(right)) => out.fill(what(left, right)),
    }
}

impl fmt::Display for Narrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock.fmt(f)
    }
}

impl PartialEq for Narrow {
    fn eq(&self, other: &Self) -> bool {
        self.stock.eq(&other.stock)
    }
}

impl Eq for Narrow {}

impl Hash for Narrow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.stock.hash(state);
    }
}

impl PhysicalExpr for Narrow {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.stock.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.stock.nullable(input_schema)
    }

    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.stock.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if !self.is_wide.load(Ordering::Relaxed) {
            if let Some(array) = self.program.run(batch)? {
                return Ok(ColumnarValue::Array(Arc::new(array)));
            }
            self.is_wide.store(true, Ordering::Relaxed);
        }
        self.stock.evaluate(batch)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.stock]
    }

    /// Returns the child itself if it is another expression: this node is put into plans that are
    /// ready to run, and an expression that is rewritten after that loses the 64-bit arithmetic.
    fn with_new_children(self: Arc<Self>, mut children: Vec<Expr>) -> Result<Expr> {
        let stock = children.pop().filter(|stock| *stock != Arc::clone(&self.stock));
        Ok(stock.unwrap_or(self))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stock.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use terrace_testkit::{Rng, with_seed};

    use super::*;

    fn decimals(values: Vec<Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
        let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
        Arc::new(array.expect("decimals"))
    }

    fn batch(arrays: Vec<ArrayRef>) -> RecordBatch {
        let named = arrays.into_iter().enumerate();
        RecordBatch::try_from_iter(named.map(|(index, array)| (format!("c{index}"), array)))
            .expect("batch")
    }

    fn literal(value: i128, precision: u8, scale: i8) -> Expr {
        lit(ScalarValue::Decimal128(Some(value), precision, scale))
    }

    /// Returns a number of about `bits` bits, of either sign.
    fn number(rng: &mut Rng, bits: u32) -> i128 {
        let wide = i128::from(rng.next_u64()) << 64 | i128::from(rng.next_u64());
        wide >> (127 - bits)
    }

    /// Returns an expression of a few columns and constants, by DataFusion's own types.
    fn random(rng: &mut Rng, schema: &Schema, depth: u32) -> Expr {
        let leaf = |rng: &mut Rng| match rng.one_in(4) {
            true => literal(number(rng, 8), 3, [0, 1, 2][rng.index(3)]),
            false => {
                let column = rng.index(schema.fields().len());
                col(&format!("c{column}"), schema).expect("column")
            }
        };
        if depth == 0 || rng.one_in(4) {
            return leaf(rng);
        }
        let operator = [Operator::Plus, Operator::Minus, Operator::Multiply][rng.index(3)];
        let (left, right) = (random(rng, schema, depth - 1), leaf(rng));
        let (left, right) = if rng.one_in(2) { (left, right) } else { (right, left) };
        binary(left, operator, right, schema).expect("arithmetic of decimals")
    }

    fn random_batch(rng: &mut Rng) -> RecordBatch {
        let rows = rng.index(3000);
        let arrays = (0..3).map(|_| {
            let bits = if rng.one_in(4) { [40, 62, 63, 70][rng.index(4)] } else { 20 };
            let nulls = rng.one_in(3);
            let value = |rng: &mut Rng| (!nulls || rng.one_in(2)).then(|| number(rng, bits));
            decimals((0..rows).map(|_| value(rng)).collect(), 25, [0, 2, 4][rng.index(3)])
        });
        let batch = batch(arrays.collect());
        let from = rng.index(rows + 1);
        batch.slice(from, rng.index(rows - from + 1))
    }

    #[test]
    fn computes_what_datafusion_does() {
        with_seed(|seed| {
            let rng = &mut Rng::new(seed);
            let (mut fast, mut slow) = (0, 0);
            for _ in 0..1000 {
                let batch = random_batch(rng);
                let expr = random(rng, &batch.schema(), 4);
                let Some(narrow) = Narrow::new(&expr, &batch.schema()) else { continue };
                let array =
                    |value: ColumnarValue| value.into_array(batch.num_rows()).expect("array");
                match (narrow.evaluate(&batch), expr.evaluate(&batch)) {
                    (Ok(own), Ok(stock)) => assert_eq!(&array(own), &array(stock), "{expr}"),
                    (Err(own), Err(stock)) => assert_eq!(own.to_string(), stock.to_string()),
                    (own, stock) => panic!("{expr}: {own:?}, DataFusion {stock:?}"),
                }
                let is_wide = narrow.is_wide.load(Ordering::Relaxed);
                *(if is_wide { &mut slow } else { &mut fast }) += 1;
            }
            assert!(fast > 200 && slow > 50, "{fast} in 64 bits, {slow} by DataFusion");
        });
    }

    #[test]
    fn the_largest_values_do_not_wrap() {
        let top = 1_i128 << 31;
        for (left, right) in [(top, top), (-top, -top), (-top, top), (-1, 1 << 61), (0, 1 << 62)] {
            let batch =
                batch(vec![decimals(vec![Some(left)], 30, 0), decimals(vec![Some(right)], 30, 0)]);
            let column = |name: &str| col(name, &batch.schema()).expect("column");
            for operator in [Operator::Plus, Operator::Minus, Operator::Multiply] {
                let expr = binary(column("c0"), operator, column("c1"), &batch.schema());
                let narrow =
                    Narrow::new(&expr.expect("expression"), &batch.schema()).expect("narrow");
                let array = narrow.evaluate(&batch).expect("value").into_array(1).expect("array");
                let expected = match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    _ => left * right,
                };
                assert_eq!(array.as_primitive::<Decimal128Type>().value(0), expected);
            }
        }
    }

    #[test]
    fn only_arithmetic_of_decimals_over_columns_is_replaced() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = batch(vec![decimals(vec![Some(1)], 10, 2), numbers]);
        let schema = batch.schema();
        let column = |name: &str| col(name, &schema).expect("column");
        let both = |left, operator, right| binary(left, operator, right, &schema).expect("binary");
        let one = || literal(100, 3, 2);
        let constants = both(one(), Operator::Plus, one());
        assert!(Narrow::new(&constants, &schema).is_none());
        assert!(Narrow::new(&column("c0"), &schema).is_none());
        assert!(Narrow::new(&both(column("c1"), Operator::Plus, column("c1")), &schema).is_none());
        let quotient = both(column("c0"), Operator::Divide, one());
        assert!(Narrow::new(&quotient, &schema).is_none());
        // The sum is found below another expression, and displayed as before.
        let sum = both(column("c0"), Operator::Plus, one());
        let compared = both(sum, Operator::Gt, literal(100, 11, 2));
        let within = narrow(Arc::clone(&compared), &schema).expect("narrowed").data;
        assert_eq!(within.to_string(), compared.to_string());
        assert!(within.children()[0].downcast_ref::<Narrow>().is_some());
        let value = within.evaluate(&batch).expect("value").into_array(1).expect("array");
        assert!(value.as_boolean().value(0));
    }
}

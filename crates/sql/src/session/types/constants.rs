//! Types of untyped literals in VALUES, taken from casts of other values of their column.
//!
//! As in PostgreSQL, a text in quotes or NULL takes the type that another value of its column is
//! cast to: `VALUES (DATE '2024-01-01'), ('2024-01-02')` are two dates.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, SetExpr, TypedString, Value, ValueWithSpan, Values,
};

/// Casts such literals of a query to the types of their columns.
pub(in super::super) fn write_out_values(body: &mut SetExpr) {
    let mut next = vec![body];
    while let Some(body) = next.pop() {
        match body {
            SetExpr::Values(values) => of_values(values),
            SetExpr::SetOperation { left, right, .. } => next.extend([&mut **left, &mut **right]),
            _ => {}
        }
    }
}

fn of_values(values: &mut Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let mut given = values.rows.iter().filter_map(|row| row.content.get(column));
        let Some(of) = given.find_map(type_of) else { continue };
        for row in &mut values.rows {
            if let Some(literal) = row.content.get_mut(column).filter(|value| is_untyped(value)) {
                let operand = std::mem::replace(literal, Expr::Value(Value::Null.into()));
                *literal = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(operand),
                    data_type: of.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// The type that a value is cast to, unless it is one of texts, which other texts do not take.
fn type_of(value: &Expr) -> Option<DataType> {
    let of = match value {
        Expr::Nested(inner) => return type_of(inner),
        Expr::Interval(_) => return Some(DataType::Interval { fields: None, precision: None }),
        Expr::TypedString(TypedString { data_type, .. }) => data_type,
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            data_type,
            array: false,
            format: None,
            ..
        } => data_type,
        _ => return None,
    };
    let is_text = matches!(
        of,
        DataType::Text
            | DataType::String(_)
            | DataType::Varchar(_)
            | DataType::Nvarchar(_)
            | DataType::CharacterVarying(_)
            | DataType::CharVarying(_)
            | DataType::Char(_)
            | DataType::Character(_)
    );
    (!is_text).then(|| of.clone())
}

/// True for a text in quotes, and for NULL.
fn is_untyped(value: &Expr) -> bool {
    match value {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Null)
        }
        _ => false,
    }
}

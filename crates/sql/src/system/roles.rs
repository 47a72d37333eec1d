//! `terrace.roles`: all roles, with their options; clients can log in with those that have LOGIN.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field};

use super::columns::{column, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    let truth = |name: &str| Field::new(name, DataType::Boolean, true);
    vec![
        text("role"),
        truth("login"),
        truth("superuser"),
        truth("inherit"),
        truth("password"),
        text("tenant"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let roles = engine.catalog().roles();
    vec![
        texts(&roles, |(name, _)| Some(name.clone())),
        column::<_, _, BooleanArray>(&roles, |(_, role)| Some(role.can_login)),
        column::<_, _, BooleanArray>(&roles, |(_, role)| Some(role.is_superuser)),
        column::<_, _, BooleanArray>(&roles, |(_, role)| Some(role.inherits)),
        column::<_, _, BooleanArray>(&roles, |(_, role)| Some(role.verifier.is_some())),
        texts(&roles, |(_, role)| role.tenant.clone()),
    ]
}

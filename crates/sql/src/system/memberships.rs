//! `terrace.memberships`: the roles that are members of roles.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field};

use super::columns::{column, text, texts};
use crate::engine::EngineState;

/// A direct membership.
struct Row {
    role: String,
    member: String,
    is_admin: bool,
    grantor: Option<String>,
}

pub(super) fn columns() -> Vec<Field> {
    let admin_option = Field::new("admin_option", DataType::Boolean, true);
    vec![text("role"), text("member"), admin_option, text("grantor")]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let rows = rows(engine);
    vec![
        texts(&rows, |row| Some(row.role.clone())),
        texts(&rows, |row| Some(row.member.clone())),
        column::<_, _, BooleanArray>(&rows, |row| Some(row.is_admin)),
        texts(&rows, |row| row.grantor.clone()),
    ]
}

fn rows(engine: &EngineState) -> Vec<Row> {
    let mut rows = Vec::new();
    for (member, role) in engine.catalog().roles() {
        rows.extend(role.member_of.iter().map(|(of, membership)| Row {
            role: of.clone(),
            member: member.clone(),
            is_admin: membership.is_admin,
            grantor: membership.grantor.clone(),
        }));
    }
    rows
}

//! `terrace.tenants`: the tenants, their SLAs, and how many of their queries run.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_sys::size::to_u64;

use super::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![text("tenant"), text("sla"), number("priority"), number("queries")]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let tenants = engine.catalog().tenants();
    let running = engine.queries().running();
    let queries = |name: &str| {
        let own = running.iter().filter(|query| query.claim().tenant.as_deref() == Some(name));
        to_u64(own.count())
    };
    vec![
        texts(&tenants, |(name, _)| Some(name.clone())),
        texts(&tenants, |(_, tenant)| tenant.sla.as_ref().map(ToString::to_string)),
        numbers(&tenants, |(_, tenant)| tenant.sla.as_ref().map(|sla| sla.priority().into())),
        numbers(&tenants, |(name, _)| Some(queries(name))),
    ]
}

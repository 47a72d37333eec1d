//! `terrace.tenants`: the tenants, their SLAs and limits, their sessions and queries.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_sys::size::to_u64;

use super::{number, numbers, text, texts};
use crate::engine::EngineState;

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("tenant"),
        text("sla"),
        number("priority"),
        number("queries"),
        number("queued"),
        number("sessions"),
        text("limits"),
    ]
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
        numbers(&tenants, |(name, _)| Some(to_u64(engine.tenancy().counts(name).queued()))),
        numbers(&tenants, |(name, _)| Some(engine.tenancy().counts(name).sessions)),
        texts(&tenants, |(_, tenant)| {
            Some(tenant.limits.to_string()).filter(|limits| !limits.is_empty())
        }),
    ]
}

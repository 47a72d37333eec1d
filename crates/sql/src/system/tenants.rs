//! `terrace.tenants`: the tenants, their SLAs and limits, their sessions and queries, and the
//! penalties of the last ten minutes.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field};
use terrace_governor::query::Requests;
use terrace_market::Sla;
use terrace_sys::size::to_u64;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

/// A report of a tenant's queries and service level.
#[derive(Clone, Debug)]
pub struct TenantReport {
    /// Name of the tenant.
    pub name: String,
    /// Its SLA, if it has one.
    pub sla: Option<Arc<Sla>>,
    /// Number of running queries.
    pub running: u64,
    /// Number of queries waiting in its queue.
    pub queued: u64,
    /// Number of open sessions of its roles.
    pub sessions: u64,
    /// Its limits, as options with their values.
    pub limits: String,
    /// Statistics of finished, failed and cancelled queries.
    pub ended: Requests,
    /// The penalty of the queries that finished in the last ten minutes; `None` without an SLA.
    pub penalty: Option<f64>,
}

impl TenantReport {
    /// Reports of all tenants of an engine, by name.
    pub(crate) fn of(engine: &EngineState) -> Vec<Self> {
        let running = engine.queries().running();
        let totals = engine.queries().totals().requests.into_iter();
        let mut ended: BTreeMap<String, Requests> = totals
            .filter_map(|requests| Some((requests.tenant.as_ref()?.to_string(), requests)))
            .collect();
        let reports = engine.catalog().tenants().into_iter().map(|(name, tenant)| {
            let own = running
                .iter()
                .filter(|query| query.claim().tenant.as_deref() == Some(name.as_str()));
            let (running, ended) = (to_u64(own.count()), ended.remove(&name).unwrap_or_default());
            let charge = |sla: &Arc<Sla>| sla.charge(&ended.recent().collect::<Vec<_>>());
            let penalty = tenant.sla.as_ref().map(charge);
            let counts = engine.tenancy().counts(&name);
            let (queued, sessions) = (to_u64(counts.queued()), counts.sessions);
            let limits = tenant.limits.to_string();
            Self { name, sla: tenant.sla, running, queued, sessions, limits, ended, penalty }
        });
        reports.collect()
    }
}

pub(super) fn columns() -> Vec<Field> {
    let float = |name: &str| Field::new(name, DataType::Float64, true);
    vec![
        text("tenant"),
        text("sla"),
        number("priority"),
        number("queries"),
        number("queued"),
        number("sessions"),
        number("finished"),
        number("failed"),
        number("cancelled"),
        float("p50_seconds"),
        float("p95_seconds"),
        float("penalty"),
        text("limits"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let tenants = TenantReport::of(engine);
    let floats = |of: &dyn Fn(&TenantReport) -> Option<f64>| -> ArrayRef {
        Arc::new(tenants.iter().map(of).collect::<Float64Array>())
    };
    vec![
        texts(&tenants, |tenant| Some(tenant.name.clone())),
        texts(&tenants, |tenant| tenant.sla.as_ref().map(ToString::to_string)),
        numbers(&tenants, |tenant| tenant.sla.as_ref().map(|sla| sla.priority().into())),
        numbers(&tenants, |tenant| Some(tenant.running)),
        numbers(&tenants, |tenant| Some(tenant.queued)),
        numbers(&tenants, |tenant| Some(tenant.sessions)),
        numbers(&tenants, |tenant| Some(tenant.ended.finished)),
        numbers(&tenants, |tenant| Some(tenant.ended.failed)),
        numbers(&tenants, |tenant| Some(tenant.ended.cancelled)),
        floats(&|tenant| tenant.ended.quantile_seconds(0.5)),
        floats(&|tenant| tenant.ended.quantile_seconds(0.95)),
        floats(&|tenant| tenant.penalty),
        texts(&tenants, |tenant| Some(tenant.limits.clone()).filter(|it| !it.is_empty())),
    ]
}

//! The metrics of a server: snapshots of the engine's counters.

use std::collections::BTreeMap;

use terrace_sql::query::{LATENCY_SECONDS, QueryState, WaitReason};
use terrace_sql::system::TierReport;

use super::exposition::{Exposition, Kind};
use super::process;
use crate::shared::Shared;

use Kind::{Counter, Gauge, Histogram};

/// Value of the label `tenant` for queries without a tenant.
const NO_TENANT: &str = "";

/// Returns all metrics as text.
pub(super) fn exposition(shared: &Shared) -> String {
    let mut metrics = Exposition::default();
    let version = env!("CARGO_PKG_VERSION");
    let build = "The version of the server.";
    metrics.metric("terrace_build_info", Gauge, build).sample(&[("version", version)], 1);
    let healthy = "1 while the engine writes, 0 once its store has failed.";
    let is_healthy = u8::from(shared.engine.failure().is_none());
    metrics.one("terrace_healthy", Gauge, healthy, is_healthy);
    if let Some(bytes) = process::resident_bytes() {
        let resident = "Memory of the process that is resident.";
        metrics.one("process_resident_memory_bytes", Gauge, resident, bytes);
    }
    tiers(&mut metrics, &shared.engine.tiers());
    store(&mut metrics, shared);
    pool(&mut metrics, shared);
    memory(&mut metrics, shared);
    market(&mut metrics, shared);
    queries(&mut metrics, shared);
    requests(&mut metrics, shared);
    tenants(&mut metrics, shared);
    connections(&mut metrics, shared);
    metrics.into_text()
}

fn tiers(metrics: &mut Exposition, tiers: &[TierReport]) {
    type Of = fn(&TierReport) -> u64;
    let each: [(&str, Kind, &str, Of); 7] = [
        ("terrace_tier_capacity_bytes", Gauge, "Bytes that a tier may hold.", |it| {
            it.capacity_bytes
        }),
        ("terrace_tier_bytes", Gauge, "Bytes that a tier holds.", |it| it.used_bytes),
        ("terrace_tier_read_bytes_total", Counter, "Bytes read from a tier.", |it| it.read_bytes),
        ("terrace_tier_written_bytes_total", Counter, "Bytes written to a store.", |it| {
            it.written_bytes
        }),
        ("terrace_tier_promoted_pages_total", Counter, "Pages from a slower tier.", |it| {
            it.promoted
        }),
        ("terrace_tier_demoted_pages_total", Counter, "Pages from a faster tier.", |it| it.demoted),
        ("terrace_tier_evicted_pages_total", Counter, "Pages that left memory.", |it| it.evicted),
    ];
    for (name, kind, help, of) in each {
        let mut metric = metrics.metric(name, kind, help);
        for tier in tiers {
            metric.sample(&[("tier", &tier.name), ("kind", tier.kind)], of(tier));
        }
    }
}

fn store(metrics: &mut Exposition, shared: &Shared) {
    let Some(store) = shared.engine.pool().store() else { return };
    let (stats, name) = (store.stats(), store.name());
    let each = [
        ("terrace_store_reads_total", "Extents read.", stats.reads),
        ("terrace_store_writes_total", "Extents written.", stats.writes),
        ("terrace_store_read_errors_total", "Reads that have failed.", stats.read_errors),
        ("terrace_store_corrupt_reads_total", "Reads of damaged bytes.", stats.corrupt_reads),
        ("terrace_store_full_total", "Requests for space that there was not.", stats.full),
    ];
    for (name_of, help, value) in each {
        metrics.metric(name_of, Counter, help).sample(&[("tier", name)], value);
    }
}

fn pool(metrics: &mut Exposition, shared: &Shared) {
    let stats = shared.engine.pool().stats();
    let hits = "Pages that were in memory when they were asked for (hits).";
    let mut metric = metrics.metric("terrace_pool_hits_total", Counter, hits);
    for tier in &stats.tiers {
        metric.sample(&[("tier", &tier.name)], tier.fixes);
    }
    let each = [
        ("terrace_pool_misses_total", "Pages read from the store (misses).", stats.loads),
        ("terrace_pool_read_bytes_total", "Bytes of pages read.", stats.loaded_bytes),
        ("terrace_pool_write_backs_total", "Pages written to the store.", stats.write_backs),
        ("terrace_pool_written_bytes_total", "Bytes of pages written.", stats.written_bytes),
        ("terrace_pool_write_failures_total", "Writes that failed.", stats.write_failures),
        ("terrace_pool_frame_waits_total", "Waits for a frame.", stats.waits),
        ("terrace_pool_owed_frames_total", "Frames lent beyond the budget.", stats.owed_frames),
    ];
    for (name, help, value) in each {
        metrics.one(name, Counter, help, value);
    }
}

fn memory(metrics: &mut Exposition, shared: &Shared) {
    let ledger = shared.engine.ledger();
    let totals = ledger.totals();
    let each = [
        ("terrace_budget_bytes", "The budget of DRAM.", totals.budget),
        ("terrace_granted_bytes", "Bytes of the budget that consumers hold.", totals.granted),
        ("terrace_debt_bytes", "Bytes held beyond the budget.", totals.debt),
    ];
    for (name, help, value) in each {
        metrics.one(name, Gauge, help, value);
    }
    // Queries are summed up: their names change too often for labels.
    let mut held: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for consumer in ledger.consumers() {
        let is_query = consumer.name.starts_with("query ");
        let name = if is_query { "queries".to_owned() } else { consumer.name.to_string() };
        *held.entry((consumer.class.as_str(), name)).or_default() += consumer.held_bytes;
    }
    let help = "Bytes of the budget that a consumer of memory holds.";
    let mut metric = metrics.metric("terrace_consumer_bytes", Gauge, help);
    for ((class, name), bytes) in &held {
        metric.sample(&[("class", class), ("consumer", name)], bytes);
    }
}

fn market(metrics: &mut Exposition, shared: &Shared) {
    let market = shared.engine.market();
    let kind = [("mechanism", market.kind.as_str())];
    metrics.metric("terrace_market_info", Gauge, "How memory is shared.").sample(&kind, 1);
    let (trades, traded) = ("Trades of memory.", "Bytes that have changed hands.");
    metrics.one("terrace_market_trades_total", Counter, trades, market.trades);
    metrics.one("terrace_market_traded_bytes_total", Counter, traded, market.traded_bytes);
    let mut sums: BTreeMap<(&str, &str), (u64, u64, bool)> = BTreeMap::new();
    for row in &market.rows {
        let tenant = row.claim.tenant.as_deref().unwrap_or(NO_TENANT);
        let (held, target, is_limited) = sums.entry((row.class, tenant)).or_default();
        *held += row.held_bytes;
        // A row without a target keeps what it holds.
        *target += row.target_bytes.unwrap_or(row.held_bytes);
        *is_limited |= row.target_bytes.is_some();
    }
    let help = "Bytes held by the table caches and the queries of a tenant.";
    let mut metric = metrics.metric("terrace_market_held_bytes", Gauge, help);
    for ((class, tenant), (held, _, _)) in &sums {
        metric.sample(&[("class", class), ("tenant", tenant)], held);
    }
    let help = "Bytes that they may hold; no sample where the market sets no limit.";
    let mut metric = metrics.metric("terrace_market_target_bytes", Gauge, help);
    for ((class, tenant), (_, target, _)) in sums.iter().filter(|(_, sum)| sum.2) {
        metric.sample(&[("class", class), ("tenant", tenant)], target);
    }
}

fn queries(metrics: &mut Exposition, shared: &Shared) {
    let running = shared.engine.queries().running();
    let states = [
        QueryState::Queued,
        QueryState::Running,
        QueryState::Suspended,
        QueryState::Preempted,
        QueryState::Cancelled,
    ];
    let of: Vec<QueryState> = running.iter().map(|query| query.state()).collect();
    let mut metric = metrics.metric("terrace_queries", Gauge, "Queries that have begun, by state.");
    for state in states {
        let count = of.iter().filter(|it| **it == state).count();
        metric.sample(&[("state", &state.to_string())], count);
    }
    let of: Vec<_> = running.iter().filter_map(|query| query.wait_reason()).collect();
    let help = "Queries that wait, by reason.";
    let mut metric = metrics.metric("terrace_queries_waiting", Gauge, help);
    for reason in WaitReason::ALL {
        let count = of.iter().filter(|it| **it == reason).count();
        metric.sample(&[("reason", reason.as_str())], count);
    }
}

/// Adds the number of queries since the start, and their latencies.
fn requests(metrics: &mut Exposition, shared: &Shared) {
    let totals = shared.engine.queries().totals();
    let help = "Queries that have ended.";
    let mut metric = metrics.metric("terrace_queries_ended_total", Counter, help);
    for it in &totals.requests {
        let tenant = it.tenant.as_deref().unwrap_or(NO_TENANT);
        let ends = [("finished", it.finished), ("failed", it.failed), ("cancelled", it.cancelled)];
        for (outcome, count) in ends {
            metric.sample(&[("tenant", tenant), ("outcome", outcome)], count);
        }
    }
    let help = "Latencies of queries that have finished.";
    let mut metric = metrics.metric("terrace_query_duration_seconds", Histogram, help);
    for it in &totals.requests {
        let tenant = it.tenant.as_deref().unwrap_or(NO_TENANT);
        let buckets = LATENCY_SECONDS.into_iter().zip(it.buckets);
        metric.histogram(&[("tenant", tenant)], buckets, it.finished, it.seconds);
    }
    let each = [
        ("terrace_spilled_bytes_total", "Bytes that queries have spilled.", totals.spilled_bytes),
        ("terrace_spill_files_total", "Files that queries spilled to.", totals.spill_files),
        ("terrace_rows_returned_total", "Rows that queries have returned.", totals.rows),
    ];
    for (name, help, value) in each {
        metrics.one(name, Counter, help, value);
    }
}

/// Adds the state of tenants against their SLAs.
fn tenants(metrics: &mut Exposition, shared: &Shared) {
    let tenants = shared.engine.tenants();
    let help = "Penalty of the queries of a tenant that finished in the last ten minutes.";
    let mut metric = metrics.metric("terrace_tenant_penalty", Gauge, help);
    for tenant in &tenants {
        if let Some(penalty) = tenant.penalty {
            metric.sample(&[("tenant", &tenant.name)], penalty);
        }
    }
    let help = "Latency from which on the SLA of a tenant has penalties.";
    let mut metric = metrics.metric("terrace_tenant_latency_limit_seconds", Gauge, help);
    for tenant in &tenants {
        let limit = tenant.sla.as_ref().and_then(|sla| sla.patience_seconds());
        if let Some(limit) = limit {
            metric.sample(&[("tenant", &tenant.name)], limit);
        }
    }
}

fn connections(metrics: &mut Exposition, shared: &Shared) {
    let (open, opened) = shared.registry.connections();
    let gauges = [
        ("terrace_connections", "Connections of PostgreSQL's protocol that have logged in.", open),
        ("terrace_connections_limit", "Connections at a time.", shared.limits.connections),
    ];
    for (name, help, value) in gauges {
        metrics.one(name, Gauge, help, value);
    }
    let counters = &shared.counters;
    let each = [
        ("terrace_logins_total", "Connections that have logged in.", opened),
        ("terrace_connections_refused_total", "Connections without a place.", counters.refused()),
        ("terrace_statements_total", "Statements that have succeeded.", counters.statements()),
    ];
    for (name, help, value) in each {
        metrics.one(name, Counter, help, value);
    }
    let help = "Errors that clients were told.";
    let mut metric = metrics.metric("terrace_errors_total", Counter, help);
    for (state, count) in counters.errors() {
        metric.sample(&[("sqlstate", &state)], count);
    }
}

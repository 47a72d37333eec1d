//! The state of the engine at one point in time, as JSON for the dashboard.
//!
//! A [`sample`] has the few numbers that charts show over time. The state ([`of`]) has all other
//! values of the dashboard, and is computed only while one is open. Both are bounded: they list
//! only the largest consumers and the oldest queries, beside the number of all.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use terrace_sql::market::{Row, TradeReport};
use terrace_sql::query::{Query, Requests, WaitReason};
use terrace_sql::system::{TenantReport, TierReport};

use super::process;
use crate::shared::Shared;

/// Maximum number of queries, consumers and tenants in a state.
const ROWS_MAX: usize = 200;
/// Maximum number of consumers that a sample names; the others are summed up.
const SAMPLED_MAX: usize = 12;
/// Maximum number of characters of a statement.
const STATEMENT_MAX: usize = 400;
/// Maximum number of trades in a state.
const TRADES_MAX: usize = 12;

/// Wait reasons of queries at the last sample, by the ids of the queries, with the time at which
/// each wait was first seen.
pub(super) type Waits = BTreeMap<u64, (WaitReason, Instant)>;

/// Returns the numbers that charts show over time.
pub(super) fn sample(shared: &Shared, at: SystemTime) -> Value {
    let engine = &shared.engine;
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for consumer in engine.ledger().consumers() {
        *classes.entry(consumer.class.as_str()).or_default() += consumer.held_bytes;
    }
    let tiers: Vec<u64> = engine.tiers().iter().map(|tier| tier.used_bytes).collect();
    let store = engine.pool().store().map(|store| store.stats());
    let store = store.map(|stats| [stats.read_bytes, stats.written_bytes]);
    json!({
        "at": millis(at),
        "classes": classes,
        "tiers": tiers,
        "store": store,
        "held": held(&engine.market().rows),
        "resident": process::resident_bytes(),
    })
}

/// Returns the bytes of the largest consumers; the queries of a tenant count as one.
fn held(rows: &[Row]) -> Map<String, Value> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.held_bytes > 0) {
        let name = match &row.claim.tenant {
            Some(tenant) if row.class == "query" => format!("queries of {tenant}"),
            _ => row.consumer.clone(),
        };
        *sums.entry(name).or_default() += row.held_bytes;
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let others: u64 = sums.iter().skip(SAMPLED_MAX).map(|(_, bytes)| bytes).sum();
    let named = sums.into_iter().take(SAMPLED_MAX);
    let mut held: Map<String, Value> =
        named.map(|(name, bytes)| (name, Value::from(bytes))).collect();
    if others > 0 {
        held.insert("others".to_owned(), Value::from(others));
    }
    held
}

/// Returns the state that the dashboard shows; `waits` are the waits of the last sample.
pub(super) fn of(shared: &Shared, waits: &Waits) -> Value {
    let engine = &shared.engine;
    let (running, market) = (engine.queries().running(), engine.market());
    let totals = engine.queries().totals();
    let (open, _) = shared.registry.connections();
    let pool = engine.pool().stats();
    let rows = market.rows.iter().take(ROWS_MAX).map(consumer);
    let trades = market.last_trades.iter().rev().take(TRADES_MAX).map(trade);
    let queries = running.iter().take(ROWS_MAX).map(|it| query(it, waits));
    let others = totals.requests.iter().find(|it| it.tenant.is_none());
    let tenants = engine.tenants();
    let tenants = tenants.iter().take(ROWS_MAX).map(tenant);
    let untold = running.iter().filter(|query| query.claim().tenant.is_none()).count();
    let untold = others.map(|it| requests(Value::Null, untold, it));
    json!({
        "sample": sample(shared, SystemTime::now()),
        "version": env!("CARGO_PKG_VERSION"),
        "failure": engine.failure(),
        "budget": engine.ledger().budget(),
        "connections": { "open": open, "limit": shared.limits.connections },
        "statements": shared.counters.statements(),
        "errors": shared.counters.errors().iter().map(|(_, count)| count).sum::<u64>(),
        "spilled": totals.spilled_bytes,
        "misses": pool.loads,
        "hits": pool.tiers.iter().map(|tier| tier.fixes).sum::<u64>(),
        "tiers": engine.tiers().iter().map(tier).collect::<Vec<_>>(),
        "market": {
            "kind": market.kind.as_str(),
            "trades": market.trades,
            "traded": market.traded_bytes,
            "consumers": rows.collect::<Vec<_>>(),
            "last": trades.collect::<Vec<_>>(),
        },
        "running": running.len(),
        "queries": queries.collect::<Vec<_>>(),
        "tenants": tenants.chain(untold).collect::<Vec<_>>(),
    })
}

fn tier(tier: &TierReport) -> Value {
    json!({
        "name": tier.name,
        "kind": tier.kind,
        "capacity": tier.capacity_bytes,
        "used": tier.used_bytes,
        "promoted": tier.promoted,
        "demoted": tier.demoted,
        "evicted": tier.evicted,
    })
}

fn consumer(row: &Row) -> Value {
    json!({
        "name": row.consumer,
        "class": row.class,
        "tenant": row.claim.tenant.as_deref(),
        "sla": row.claim.sla.as_ref().map(ToString::to_string),
        "held": row.held_bytes,
        "target": row.target_bytes,
        "gain": row.gain_per_mib,
        "loss": row.loss_per_mib,
        "spilled": row.spilled_bytes,
    })
}

fn trade(trade: &TradeReport) -> Value {
    json!({
        "at": millis(trade.at),
        "from": trade.from,
        "to": trade.to,
        "bytes": trade.bytes,
        "gain": trade.gain,
    })
}

fn query(query: &Query, waits: &Waits) -> Value {
    let (progress, claim) = (query.progress(), query.claim());
    let reason = query.wait_reason();
    let since = waits.get(&query.id()).filter(|(was, _)| Some(*was) == reason);
    let waited = since.map(|(_, since)| Instant::now().saturating_duration_since(*since));
    json!({
        "id": query.id(),
        "statement": shortened(query.text()),
        "tenant": claim.tenant.as_deref(),
        "sla": claim.sla.as_ref().map(ToString::to_string),
        "priority": claim.priority(),
        "limit": claim.sla.as_ref().and_then(|sla| sla.patience_seconds()),
        "state": query.state().to_string(),
        "wait": reason.map(|reason| reason.as_str()),
        "waited": waited.map(|waited| waited.as_secs_f64()),
        "seconds": query.began().elapsed().as_secs_f64(),
        "fraction": progress.fraction(),
        "rows": query.rows_returned(),
        "held": query.memory().held_bytes(),
        "target": query.memory().limit(),
        "peak": query.memory().peak_bytes(),
        "resident": query.resident_bytes(),
        "spilled": query.spilled().bytes(),
        "dram": progress.dram_bytes,
        "remote": progress.remote_bytes,
        "store": progress.store_bytes,
    })
}

fn tenant(tenant: &TenantReport) -> Value {
    let mut value = requests(
        Value::from(tenant.name.as_str()),
        usize::try_from(tenant.running).unwrap_or(usize::MAX),
        &tenant.ended,
    );
    let limit = tenant.sla.as_ref().and_then(|sla| sla.patience_seconds());
    let late = |limit: f64| tenant.ended.recent().filter(|it| it.seconds > limit).count();
    if let Value::Object(of) = &mut value {
        of.insert("sla".to_owned(), json!(tenant.sla.as_ref().map(ToString::to_string)));
        of.insert("priority".to_owned(), json!(tenant.sla.as_ref().map(|sla| sla.priority())));
        of.insert("limit".to_owned(), json!(limit));
        of.insert("queued".to_owned(), json!(tenant.queued));
        of.insert("sessions".to_owned(), json!(tenant.sessions));
        of.insert("limits".to_owned(), json!(tenant.limits));
        of.insert("late".to_owned(), json!(limit.map(late)));
        of.insert("penalty".to_owned(), json!(tenant.penalty));
    }
    value
}

fn requests(name: Value, running: usize, ended: &Requests) -> Value {
    json!({
        "name": name,
        "running": running,
        "finished": ended.finished,
        "failed": ended.failed,
        "cancelled": ended.cancelled,
        "recent": ended.recent().count(),
        "p50": ended.quantile_seconds(0.5),
        "p95": ended.quantile_seconds(0.95),
    })
}

/// Returns the beginning of a statement, on one line.
fn shortened(text: &str) -> String {
    // Only a prefix is processed: a statement may have millions of characters.
    let begin: String = text.chars().take(4 * STATEMENT_MAX).collect();
    let words: Vec<&str> = begin.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= STATEMENT_MAX && begin.len() == text.len() {
        return line;
    }
    line.chars().take(STATEMENT_MAX).chain("...".chars()).collect()
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_shortened_to_one_line() {
        assert_eq!(shortened("SELECT 1,\n   2"), "SELECT 1, 2");
        let long = shortened(&"x ".repeat(10_000_000));
        assert!(long.ends_with("...") && long.len() == STATEMENT_MAX + 3, "{}", long.len());
        let exact = "y".repeat(STATEMENT_MAX);
        assert_eq!(shortened(&exact), exact);
    }
}

//! `terrace.tiers`: the memory tiers of the pool and the store below them.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;

use super::columns::{number, numbers, text, texts};
use crate::engine::EngineState;

/// A report of a tier's usage and traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierReport {
    /// The tier's name, as in `--tier`.
    pub name: String,
    /// `memory` or `store`.
    pub kind: &'static str,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Bytes in use: pages and warm frames, or extents.
    pub used_bytes: u64,
    /// Bytes read from it: of pages fixed in memory, or of extents.
    pub read_bytes: u64,
    /// Bytes written to it as extents; 0 for memory.
    pub written_bytes: u64,
    /// Pages promoted into the tier from a slower one.
    pub promoted: u64,
    /// Pages demoted into the tier from a faster one; for the store, all writes of extents.
    pub demoted: u64,
    /// Pages evicted from memory from this tier.
    pub evicted: u64,
}

impl TierReport {
    /// Reports of all tiers of an engine, fastest first.
    pub(crate) fn of(engine: &EngineState) -> Vec<Self> {
        let memory = engine.pool().stats().tiers.into_iter().map(|tier| Self {
            name: tier.name,
            kind: "memory",
            capacity_bytes: tier.capacity_bytes,
            used_bytes: tier.used_bytes,
            read_bytes: tier.fixed_bytes,
            written_bytes: 0,
            promoted: tier.promoted,
            demoted: tier.demoted,
            evicted: tier.evicted,
        });
        let store = engine.pool().store().map(|store| {
            let stats = store.stats();
            Self {
                name: store.name().to_owned(),
                kind: "store",
                capacity_bytes: stats.capacity_bytes,
                used_bytes: stats.used_bytes,
                read_bytes: stats.read_bytes,
                written_bytes: stats.written_bytes,
                promoted: 0,
                demoted: stats.writes,
                evicted: 0,
            }
        });
        memory.chain(store).collect()
    }
}

pub(super) fn columns() -> Vec<Field> {
    vec![
        text("tier"),
        text("kind"),
        number("capacity_bytes"),
        number("used_bytes"),
        number("read_bytes"),
        number("written_bytes"),
        number("promoted"),
        number("demoted"),
        number("evicted"),
    ]
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let tiers = TierReport::of(engine);
    vec![
        texts(&tiers, |tier| Some(tier.name.clone())),
        texts(&tiers, |tier| Some(tier.kind.to_owned())),
        numbers(&tiers, |tier| Some(tier.capacity_bytes)),
        numbers(&tiers, |tier| Some(tier.used_bytes)),
        numbers(&tiers, |tier| Some(tier.read_bytes)),
        numbers(&tiers, |tier| Some(tier.written_bytes)),
        numbers(&tiers, |tier| Some(tier.promoted)),
        numbers(&tiers, |tier| Some(tier.demoted)),
        numbers(&tiers, |tier| Some(tier.evicted)),
    ]
}

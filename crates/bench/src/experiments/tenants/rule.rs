//! The tenants, and the policies for sharing memory between them.

/// The tenants and their SLAs. The SLAs of scans and sorts are those of the trace; the penalty of a
/// late look-up is higher, since each replayed look-up stands for many.
pub(super) const TENANTS: [(&str, &str); 3] = [
    ("lookups", "latency 20ms penalty 0.5"),
    ("scans", "latency 100ms penalty 1 per 1s"),
    ("sorts", "latency 300ms penalty 3 per 1s"),
];

/// A policy for sharing memory: the market mechanism, and the priority of look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: &'static str,
    /// Name of the policy as a value of the option `--rules`.
    pub(super) option: &'static str,
    pub(super) market: &'static str,
    pub(super) priority: Option<u8>,
}

/// All policies, the baselines first.
pub(super) const RULES: [Rule; 5] = [
    Rule { name: "static split", option: "static", market: "static", priority: None },
    Rule { name: "demand driven", option: "demand", market: "demand", priority: None },
    Rule { name: "fair", option: "fair", market: "fair", priority: None },
    Rule { name: "auction", option: "auction", market: "auction", priority: None },
    Rule { name: "auction, priority", option: "priority", market: "auction", priority: Some(1) },
];
/// Number of baselines: policies of systems without a market.
pub(super) const BASELINES: usize = 2;

//! State that all connections of a server share.

use std::sync::Arc;

use terrace_sql::Engine;
use tokio::sync::Semaphore;

use crate::counters::Counters;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::tls::Tls;

/// State that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Random bytes of this server, used to answer logins of roles that do not exist.
    pub(crate) secret: [u8; 32],
    pub(crate) counters: Arc<Counters>,
    /// Permits for connections that have logged in.
    pub(crate) places: Arc<Semaphore>,
}

//! The right to read and write files of the machine, which takes a superuser.

use std::fmt;
use std::sync::{Arc, Mutex};

use terrace_cloud::CloudFiles;
use terrace_sys::sync::lock;
use terrace_table::error::SqlError;

use crate::access::Rights;
use crate::engine::EngineState;

/// The role that SET ROLE has chosen; `None` if the session acts as its login role.
pub(crate) type ActingRole = Arc<Mutex<Option<Arc<str>>>>;

/// The right of a session to use files. A statement checks it before it touches any file, since
/// the columns of a file, and its mere existence, say something about it.
pub(crate) struct FileAccess {
    engine: Arc<EngineState>,
    cloud: CloudFiles,
    login_role: Option<Arc<str>>,
    acting_role: ActingRole,
}

impl FileAccess {
    /// The right of a session with these roles; without any, the session is unrestricted.
    pub(crate) fn new(
        engine: Arc<EngineState>,
        login_role: Option<Arc<str>>,
        acting_role: ActingRole,
    ) -> Self {
        let cloud = engine.cloud().apart();
        Self { engine, cloud, login_role, acting_role }
    }

    /// Remote files (S3, HTTP), found together for each statement of the session.
    pub(crate) fn cloud(&self) -> &CloudFiles {
        &self.cloud
    }

    /// Requires the right to use files; `what` names the refused action in the error.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(crate) fn require(&self, what: &str) -> Result<(), SqlError> {
        let acting = lock(&self.acting_role).clone();
        let role = acting.or_else(|| self.login_role.clone());
        let snapshot = self.engine.catalog().snapshot();
        Rights::new(&snapshot, role).require_superuser(what)
    }
}

impl fmt::Debug for FileAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileAccess").field("role", &self.login_role).finish_non_exhaustive()
    }
}

//! Execution of COPY FROM a file: inserts the rows of files into a table.

use std::sync::Arc;

use terrace_governor::pins::Reader;
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use super::copy::{chosen, insertion};
use crate::file_tables;
use crate::session::file_copy::CopyFrom;
use crate::session::state::{Planned, Session};
use crate::session::{defaults, generated};

impl Session {
    /// Plans the insertion of the rows of the files of `copy`, all of them or none. Requires a
    /// superuser, because it reads files of the server.
    pub(in crate::session) async fn copy_files_in(
        &self,
        copy: CopyFrom,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        self.follow_engine()?;
        let (mut state, snapshot) = self.state_in(scope)?;
        self.rights(&snapshot).require_superuser(&format!("reading the file {}", copy.path))?;
        state.config_mut().set_extension(Arc::clone(&reader));
        let (target, full) = self.target_of_copy(&state, &snapshot, &copy.table)?;
        let schema = chosen(&target, &copy.columns)?;
        let source = copy.format.source(&copy.options);
        let source = (source, copy.options.compression.as_deref());
        let rows = file_tables::copied(&copy.path, source, &schema, self.engine.cloud())?;
        let plan = defaults::fill(&state, insertion(target, &full, rows)?)?;
        let plan = generated::computed(&state, plan)?;
        self.physical_plan(state, plan, &snapshot, scope, reader).await
    }
}

//! Functions and types of the database, for the tables of an added schema.

use super::shared::Names;
use crate::session::{EnumReport, RoutineReport, enums_of, routines_of};

impl Names {
    /// The functions and macros of all schemas, without those of a schema in which the stored text
    /// of one is damaged.
    #[must_use]
    pub fn routines(&self) -> Vec<RoutineReport> {
        let snapshot = self.shared.now();
        let of = |schema: &String| routines_of(&snapshot, schema).unwrap_or_default();
        self.schemas().iter().flat_map(of).collect()
    }

    /// The enums of all schemas, without those of a schema in which the stored text of one is
    /// damaged.
    #[must_use]
    pub fn enums(&self) -> Vec<EnumReport> {
        let snapshot = self.shared.now();
        let of = |schema: &String| enums_of(&snapshot, schema).unwrap_or_default();
        self.schemas().iter().flat_map(of).collect()
    }
}

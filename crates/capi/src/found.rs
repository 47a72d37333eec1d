//! Results of recovery that a handle keeps.

use std::ffi::CString;

use terrace_objects::Recovered;

/// Results of recovery, with the descriptions of damage as C strings.
#[derive(Default)]
pub(crate) struct Found {
    recovered: Recovered,
    damage: Vec<CString>,
}

impl Found {
    pub(crate) fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// Returns a text for each part that was left out.
    pub(crate) fn damage(&self) -> &[CString] {
        &self.damage
    }
}

impl From<Recovered> for Found {
    fn from(recovered: Recovered) -> Self {
        let text = |text: &String| CString::new(text.replace('\0', "")).unwrap_or_default();
        Self { damage: recovered.damage.iter().map(text).collect(), recovered }
    }
}

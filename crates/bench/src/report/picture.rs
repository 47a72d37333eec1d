//! Pictures of an experiment, with the names of their files.

use std::path::Path;

use super::{Bars, Lines};
use crate::error::Result;

/// A picture in addition to the main one.
#[derive(Clone, Debug)]
pub enum Picture {
    /// A line chart.
    Lines(Lines),
    /// A bar chart.
    Bars {
        /// Suffix of the file name, after that of the report.
        name: String,
        /// The chart.
        bars: Bars,
    },
}

impl Picture {
    /// Returns the suffix of the file name, after that of the report.
    pub fn name(&self) -> &str {
        match self {
            Picture::Lines(lines) => &lines.name,
            Picture::Bars { name, .. } => name,
        }
    }

    /// Draws the picture into a file.
    ///
    /// # Errors
    /// [`crate::BenchError::Picture`] if the picture cannot be drawn or written.
    pub fn draw(&self, path: &Path) -> Result<()> {
        match self {
            Picture::Lines(lines) => lines.draw(path),
            Picture::Bars { bars, .. } => bars.draw(path),
        }
    }
}

impl From<Lines> for Picture {
    fn from(lines: Lines) -> Picture {
        Picture::Lines(lines)
    }
}

//! Pictures of an experiment, with the names of their files.

use std::path::Path;

use super::{Bars, Lines};
use crate::error::Result;

/// A picture in addition to the main one.
#[derive(Clone, Debug)]
pub struct Picture {
    name: String,
    chart: Chart,
}

/// Contents of a picture.
#[derive(Clone, Debug)]
pub enum Chart {
    /// A bar chart.
    Bars(Bars),
    /// Line charts side by side.
    Lines(Lines),
}

impl Picture {
    /// Creates a picture. `name` is the suffix of the file name, after that of the report.
    pub fn new(name: impl Into<String>, chart: impl Into<Chart>) -> Picture {
        Picture { name: name.into(), chart: chart.into() }
    }

    /// Returns the suffix of the file name, after that of the report.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the contents.
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// Draws the picture into a file.
    ///
    /// # Errors
    /// [`crate::BenchError::Picture`] if the picture cannot be drawn or written.
    pub fn draw(&self, path: &Path) -> Result<()> {
        match &self.chart {
            Chart::Bars(bars) => bars.draw(path),
            Chart::Lines(lines) => lines.draw(path),
        }
    }
}

impl From<Bars> for Chart {
    fn from(bars: Bars) -> Chart {
        Chart::Bars(bars)
    }
}

impl From<Lines> for Chart {
    fn from(lines: Lines) -> Chart {
        Chart::Lines(lines)
    }
}

//! Any picture that an experiment draws, with what its file is called.

use std::path::Path;

use crate::chart::Bars;
use crate::error::Result;
use crate::lines::Lines;

/// A picture beside the first one.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Lines over a scale.
    Lines(Lines),
    /// Bars side by side.
    Bars {
        /// What the file is called after the report's.
        name: String,
        /// The bars.
        bars: Bars,
    },
}

impl Picture {
    /// What the file is called after the report's.
    pub fn name(&self) -> &str {
        match self {
            Picture::Lines(lines) => &lines.name,
            Picture::Bars { name, .. } => name,
        }
    }

    /// Draws the picture into a file.
    ///
    /// # Errors
    /// [`crate::BenchError::Picture`] when it cannot be drawn or written.
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

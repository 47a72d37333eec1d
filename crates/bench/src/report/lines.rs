//! Line charts as SVG.

use std::path::Path;

use plotters::prelude::*;

use super::canvas::{Canvas, Drawn, axis_end, colour, draw};
use crate::error::Result;

/// Size of one panel in pixels.
const PANEL: (u32, u32) = (520, 400);

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points of the line.
    pub points: Vec<(f64, f64)>,
}

/// Lines over one pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Label of the horizontal axis, with the unit.
    pub x: String,
    /// Label of the vertical axis, with the unit.
    pub y: String,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Panels side by side.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The panels, from left to right.
    pub panels: Vec<Panel>,
}

impl Lines {
    /// Draws the picture into a file.
    ///
    /// # Errors
    /// [`crate::BenchError::Picture`] if the picture cannot be drawn or written.
    pub fn draw(&self, path: &Path) -> Result<()> {
        let panels = u32::try_from(self.panels.len()).unwrap_or(1).max(1);
        let size = (PANEL.0 * panels, PANEL.1);
        draw(path, size, |canvas| {
            let parts = canvas.split_evenly((1, self.panels.len()));
            self.panels.iter().zip(&parts).try_for_each(|(panel, part)| panel.draw_on(part))
        })
    }
}

impl Panel {
    fn draw_on<'a>(&self, canvas: &Canvas<'a>) -> Drawn<'a> {
        let (right, top) = self.extent();
        let mut chart = ChartBuilder::on(canvas)
            .caption(&self.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..right, 0.0..top * 1.08)?;
        chart.configure_mesh().x_desc(&self.x).y_desc(&self.y).draw()?;
        for (index, line) in self.lines.iter().enumerate() {
            let colour = colour(index);
            let drawn = line.points.iter().filter(|at| at.0.is_finite() && at.1.is_finite());
            let series = LineSeries::new(drawn.copied(), colour.stroke_width(2));
            chart.draw_series(series)?.label(&line.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 2), (x + 12, y + 2)], colour.filled())
            });
        }
        if self.lines.len() > 1 {
            let mut labels = chart.configure_series_labels();
            labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.85));
            labels.border_style(BLACK.mix(0.3)).draw()?;
        }
        Ok(())
    }

    /// Returns the ends of both axes.
    fn extent(&self) -> (f64, f64) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        (axis_end(points().map(|point| point.0)), axis_end(points().map(|point| point.1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_its_lines() {
        let line = |name: &str| Line { name: name.into(), points: vec![(0.0, 2.0), (5.0, 1.0)] };
        let panel = |title: &str| Panel {
            title: title.into(),
            x: "MiB".into(),
            y: "penalty".into(),
            lines: vec![line("one"), line("two")],
        };
        let lines = Lines { panels: vec![panel("left"), panel("right")] };
        let file = std::env::temp_dir().join(format!("lines-{}.svg", std::process::id()));
        lines.draw(&file).expect("drawn");
        let text = std::fs::read_to_string(&file).expect("read");
        std::fs::remove_file(&file).expect("removed");
        for part in ["left", "right", "one", "two", "MiB", "penalty"] {
            assert!(text.contains(part), "{part}");
        }
        assert!(text.matches("<polyline").count() >= 4);
    }
}

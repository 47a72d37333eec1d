//! Bar charts as SVG: one group of bars per category.

use std::path::Path;

use plotters::prelude::*;

use super::canvas::{Canvas, Drawn, axis_end, colour, draw};
use crate::error::Result;

/// Size of a picture in pixels.
const SIZE: (u32, u32) = (1_100, 480);

/// Values of one series, one per category; `None` leaves a gap.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// One value per category.
    pub values: Vec<Option<f64>>,
}

/// A bar chart: groups of bars, one bar per series.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Title of the picture.
    pub title: String,
    /// Label of the vertical axis, with the unit.
    pub unit: String,
    /// Names under the groups.
    pub categories: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
}

impl Bars {
    /// Draws the picture into a file.
    ///
    /// # Errors
    /// [`crate::BenchError::Picture`] if the picture cannot be drawn or written.
    pub fn draw(&self, path: &Path) -> Result<()> {
        draw(path, SIZE, |canvas| self.draw_on(canvas))
    }

    fn draw_on<'a>(&self, canvas: &Canvas<'a>) -> Drawn<'a> {
        let groups = as_f64(self.categories.len());
        let mut chart = ChartBuilder::on(canvas)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..groups.max(1.0), 0.0..self.highest() * 1.08)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(self.categories.len().max(1) * 2 + 1)
            .x_label_formatter(&|at| self.label(*at))
            .y_desc(&self.unit)
            .draw()?;
        let bar = 0.8 / as_f64(self.series.len()).max(1.0);
        for (index, series) in self.series.iter().enumerate() {
            let colour = colour(index);
            let left = 0.1 + bar * as_f64(index);
            let bars = series.values.iter().enumerate().filter_map(|(group, value)| {
                let from = as_f64(group) + left;
                let value = value.filter(|value| value.is_finite())?;
                Some(Rectangle::new([(from, 0.0), (from + bar, value)], colour.filled()))
            });
            chart.draw_series(bars)?.label(&series.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
            });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()
    }

    /// Returns the category whose group is centred at this position of the axis; empty between the
    /// centres.
    fn label(&self, at: f64) -> String {
        let middle = |index: usize| (as_f64(index) + 0.5 - at).abs() < 0.01;
        let found = (0..self.categories.len()).find(|index| middle(*index));
        found.map(|index| self.categories[index].clone()).unwrap_or_default()
    }

    fn highest(&self) -> f64 {
        axis_end(self.series.iter().flat_map(|series| series.values.iter().flatten()).copied())
    }
}

/// Converts a small count to a coordinate.
fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_a_bar_per_value() {
        let bars = Bars {
            title: "title of it".into(),
            unit: "seconds".into(),
            categories: (1..=22).map(|number| format!("Q{number}")).collect(),
            series: vec![
                Series { name: "one".into(), values: vec![Some(1.0); 22] },
                Series { name: "two".into(), values: vec![None; 22] },
            ],
        };
        let file = std::env::temp_dir().join(format!("chart-{}.svg", std::process::id()));
        bars.draw(&file).expect("drawn");
        let text = std::fs::read_to_string(&file).expect("read");
        std::fs::remove_file(&file).expect("removed");
        for part in ["title of it", "seconds", "Q1", "Q22", "one", "two"] {
            assert!(text.contains(part), "{part}");
        }
        assert_eq!(text.matches("#1F77B4").count(), 23, "22 bars and the legend");
    }

    #[test]
    fn values_without_bounds_and_none_at_all_make_a_picture() {
        let bars = |values: Vec<Option<f64>>| Bars {
            title: String::new(),
            unit: String::new(),
            categories: vec!["Q1".into(); values.len()],
            series: vec![Series { name: "one".into(), values }],
        };
        let file = std::env::temp_dir().join(format!("chart-ends-{}.svg", std::process::id()));
        for values in
            [vec![Some(f64::INFINITY), Some(2.0), Some(f64::NAN)], vec![Some(0.0)], vec![]]
        {
            bars(values).draw(&file).expect("drawn");
        }
        std::fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let bars =
            Bars { title: String::new(), unit: String::new(), categories: vec![], series: vec![] };
        let error = bars.draw(Path::new("/no/such/dir/x.svg")).expect_err("refused");
        assert!(error.to_string().contains("/no/such/dir/x.svg"), "{error}");
    }
}

//! Common parts of the charts: drawing into an SVG file, colours, and the ends of axes.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{BenchError, Result};

/// Colours of the series, distinguishable in print.
const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(90, 90, 90),
    RGBColor(148, 103, 189),
];

/// Smallest maximum of an axis: no measured value other than 0 is smaller, in any unit.
const AXIS_END_MIN: f64 = 1e-12;

/// Area of a picture that a chart is drawn on.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Result of drawing on an SVG picture.
pub(super) type Drawn<'a> =
    std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Draws a picture of `size`, in pixels, on a white background into a file.
///
/// # Errors
/// [`BenchError::Picture`] if the picture cannot be drawn or written.
pub(super) fn draw<'a>(
    path: &'a Path,
    size: (u32, u32),
    chart: impl FnOnce(&Canvas<'a>) -> Drawn<'a>,
) -> Result<()> {
    let canvas = SVGBackend::new(path, size).into_drawing_area();
    let drawn = canvas.fill(&WHITE).and_then(|()| chart(&canvas)).and_then(|()| canvas.present());
    drawn.map_err(|error| BenchError::Picture {
        path: path.to_path_buf(),
        message: error.to_string(),
    })
}

/// Returns the colour of the series with this index.
pub(super) fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Returns the largest of some values as the end of an axis, or 1 if none is above 0. Infinite
/// ratios, whose divisor was 0, are ignored: the library `plotters` does not terminate for an
/// infinite or nearly empty axis.
pub(super) fn axis_end(values: impl Iterator<Item = f64>) -> f64 {
    let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if highest < AXIS_END_MIN { 1.0 } else { highest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_its_highest_finite_value() {
        assert_eq!(axis_end([f64::INFINITY, 2.0, f64::NAN].into_iter()), 2.0);
        assert_eq!(axis_end([0.0].into_iter()), 1.0);
        assert_eq!(axis_end([].into_iter()), 1.0);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = draw(Path::new("/no/such/dir/x.svg"), (10, 10), |_| Ok(()));
        let error = error.expect_err("refused").to_string();
        assert!(error.contains("/no/such/dir/x.svg"), "{error}");
    }
}

//! Corrections of models by measurements.

use super::polyline::Curve;

/// Weight of a new measurement against all earlier ones.
const WEIGHT: f64 = 0.3;
/// Maximum factor of a correction, up or down: beyond it the model is of no use, and a single
/// absurd measurement must not move the market.
const FACTOR_MAX: f64 = 64.0;

/// Scale factors of a model's sizes and costs, learned from measurements.
///
/// Sizes are corrected when an input is larger or smaller than the optimizer estimated, costs when
/// an I/O is slower or rarer than the model predicts. Both are moving means of the logarithm of
/// measured over predicted, so that a factor of 2 and one of 1/2 cancel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    size: Scale,
    cost: Scale,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Scale {
    log: f64,
    seen: bool,
}

impl Correction {
    /// Records that an estimate of `predicted` bytes was measured as `measured` bytes.
    pub fn observe_bytes(&mut self, predicted: f64, measured: f64) {
        self.size.observe(predicted, measured);
    }

    /// Records that a predicted cost of `predicted` was measured as `measured`.
    pub fn observe_cost(&mut self, predicted: f64, measured: f64) {
        self.cost.observe(predicted, measured);
    }

    /// Returns the factor by which sizes are scaled.
    #[must_use]
    pub fn size_factor(&self) -> f64 {
        self.size.log.exp()
    }

    /// Returns the factor by which costs are scaled.
    #[must_use]
    pub fn cost_factor(&self) -> f64 {
        self.cost.log.exp()
    }

    /// Returns the corrected curve of a model. More bytes also cost more I/O, in proportion.
    #[must_use]
    pub fn apply(&self, model: &Curve) -> Curve {
        let size = self.size_factor();
        model.stretched(size).scaled(size * self.cost_factor())
    }
}

impl Scale {
    /// Adds a measurement; ignores ratios that are not positive and finite.
    fn observe(&mut self, predicted: f64, measured: f64) {
        let ratio = measured / predicted;
        if !(ratio.is_finite() && ratio > 0.0 && predicted > 0.0) {
            return;
        }
        let log = ratio.clamp(1.0 / FACTOR_MAX, FACTOR_MAX).ln();
        self.log = if self.seen { self.log + WEIGHT * (log - self.log) } else { log };
        self.seen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    #[test]
    fn it_learns_a_constant_error_at_once_and_keeps_it() {
        let mut correction = Correction::default();
        for _ in 0..5 {
            correction.observe_bytes(100.0, 300.0);
            correction.observe_cost(10.0, 5.0);
        }
        assert!((correction.size_factor() - 3.0).abs() < 1e-9);
        assert!((correction.cost_factor() - 0.5).abs() < 1e-9);
        let model = Curve::new([Point::new(0, 8.0), Point::new(1000, 0.0)]).expect("a curve");
        let corrected = correction.apply(&model);
        assert!((corrected.at(0) - 12.0).abs() < 1e-9);
        assert!((corrected.at(1500) - 6.0).abs() < 0.01);
    }

    #[test]
    fn noise_cancels_and_nonsense_is_ignored() {
        let mut correction = Correction::default();
        for _ in 0..50 {
            correction.observe_cost(1.0, 2.0);
            correction.observe_cost(2.0, 1.0);
        }
        assert!((0.8..1.25).contains(&correction.cost_factor()));
        let before = correction;
        for (predicted, measured) in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (-1.0, -1.0)] {
            correction.observe_cost(predicted, measured);
        }
        assert_eq!(correction, before);
        correction.observe_bytes(1.0, 1e300);
        assert!((correction.size_factor() - FACTOR_MAX).abs() < 1e-6);
    }
}

//! Poisson distribution.

/// Poisson distribution of a number of I/Os.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poisson {
    mean: f64,
}

/// Above this mean the standard deviation is less than an eighth of it, and the mean is exact
/// enough.
const MEAN_MAX: f64 = 64.0;
/// Upper bound of the numbers summed: the probability beyond is negligible for a mean of
/// [`MEAN_MAX`].
const NUMBER_MAX: u32 = 256;

impl Poisson {
    /// Returns the distribution of this mean, or `None` if the mean is too large for its spread to
    /// matter.
    pub(super) fn of(mean: f64) -> Option<Self> {
        (0.0..MEAN_MAX).contains(&mean).then_some(Self { mean })
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the probability of `number` or more.
    pub(super) fn at_least(&self, number: f64) -> f64 {
        let below = self.chances().zip(0..).take_while(|(_, at)| f64::from(*at) < number);
        (1.0 - below.map(|(chance, _)| chance).sum::<f64>()).max(0.0)
    }

    /// Returns the smallest number that is not exceeded with probability `chance`.
    pub(super) fn quantile(&self, chance: f64) -> f64 {
        let mut sum = 0.0;
        let reached = self.chances().zip(0..).find(|(each, _)| {
            sum += each;
            sum >= chance
        });
        f64::from(reached.map_or(NUMBER_MAX, |(_, number)| number))
    }

    /// Returns the probabilities of 0, 1, 2 and so on.
    fn chances(&self) -> impl Iterator<Item = f64> {
        let first = (-self.mean).exp();
        (0..NUMBER_MAX).scan(first, move |chance, number| {
            let this = *chance;
            *chance *= self.mean / f64::from(number + 1);
            Some(this)
        })
    }
}

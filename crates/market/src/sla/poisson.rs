//! How many of many chances come true.

/// A number of I/Os about a mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poisson {
    mean: f64,
}

/// Above this mean the spread is less than an eighth of it, and the mean says enough.
const MEAN_MAX: f64 = 64.0;
/// Numbers beyond which nothing is left to the last digit, with a mean of [`MEAN_MAX`].
const NUMBER_MAX: u32 = 256;

impl Poisson {
    /// Of a mean that is small enough for its spread to matter.
    pub(super) fn of(mean: f64) -> Option<Self> {
        (0.0..MEAN_MAX).contains(&mean).then_some(Self { mean })
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// The chance of `number` or more.
    pub(super) fn at_least(&self, number: f64) -> f64 {
        let below = self.chances().zip(0..).take_while(|(_, at)| f64::from(*at) < number);
        (1.0 - below.map(|(chance, _)| chance).sum::<f64>()).max(0.0)
    }

    /// The least number that is not exceeded with this chance.
    pub(super) fn quantile(&self, chance: f64) -> f64 {
        let mut sum = 0.0;
        let reached = self.chances().zip(0..).find(|(each, _)| {
            sum += each;
            sum >= chance
        });
        f64::from(reached.map_or(NUMBER_MAX, |(_, number)| number))
    }

    /// The chances of 0, 1, 2 and so on.
    fn chances(&self) -> impl Iterator<Item = f64> {
        let first = (-self.mean).exp();
        (0..NUMBER_MAX).scan(first, move |chance, number| {
            let this = *chance;
            *chance *= self.mean / f64::from(number + 1);
            Some(this)
        })
    }
}

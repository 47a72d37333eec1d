//! Formulas of aggregates over numbers, with states of five numbers.

/// Names of the numbers of a state: the count of rows, and four numbers with a meaning of the
/// formula's own.
pub(super) const STATE: [&str; 5] = ["count", "first", "second", "third", "fourth"];

/// The state of a group.
pub(super) type State = [f64; STATE.len()];

/// An aggregate of numbers.
pub(super) trait Formula: Send + Sync + 'static {
    /// The state of no numbers.
    const START: State = [0.0; STATE.len()];

    /// Adds a number.
    fn add(state: &mut State, number: f64);

    /// Adds the numbers of another state.
    fn merge(state: &mut State, other: &State);

    /// Returns the result; `None` is null.
    fn result(state: &State) -> Option<f64>;
}

/// `product(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Product;

impl Formula for Product {
    const START: State = [0.0, 1.0, 0.0, 0.0, 0.0];

    fn add(state: &mut State, number: f64) {
        state[0] += 1.0;
        state[1] *= number;
    }

    fn merge(state: &mut State, other: &State) {
        state[0] += other[0];
        state[1] *= other[1];
    }

    fn result(state: &State) -> Option<f64> {
        (state[0] > 0.0).then_some(state[1])
    }
}

/// `fsum(x)`: a sum with compensation for the rounding of each addition (Neumaier's).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct CompensatedSum;

impl Formula for CompensatedSum {
    fn add(state: &mut State, number: f64) {
        let [count, sum, lost, ..] = state;
        *count += 1.0;
        let total = *sum + number;
        *lost += match sum.abs() >= number.abs() {
            true => (*sum - total) + number,
            false => (number - total) + *sum,
        };
        *sum = total;
    }

    fn merge(state: &mut State, other: &State) {
        let count = state[0] + other[0];
        Self::add(state, other[1]);
        state[0] = count;
        state[2] += other[2];
    }

    fn result(state: &State) -> Option<f64> {
        let [count, sum, lost, ..] = *state;
        // The difference of infinities is no number.
        let total = if sum.is_finite() { sum + lost } else { sum };
        (count > 0.0).then_some(total)
    }
}

/// `skewness(x)`, of a sample.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Skewness;

impl Formula for Skewness {
    fn add(state: &mut State, number: f64) {
        add_moments(state, number);
    }

    fn merge(state: &mut State, other: &State) {
        merge_moments(state, other);
    }

    fn result(state: &State) -> Option<f64> {
        let [count, _, second, third, _] = *state;
        let variance = second / count;
        let of_population = third / count / (variance * variance.sqrt());
        let of_sample = (count * (count - 1.0)).sqrt() / (count - 2.0) * of_population;
        (count > 2.0 && second != 0.0).then_some(of_sample)
    }
}

/// `kurtosis(x)`: the excess kurtosis, of a sample.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SampleKurtosis;

impl Formula for SampleKurtosis {
    fn add(state: &mut State, number: f64) {
        add_moments(state, number);
    }

    fn merge(state: &mut State, other: &State) {
        merge_moments(state, other);
    }

    fn result(state: &State) -> Option<f64> {
        let n = state[0];
        let excess = (n + 1.0) * standardized(state) - 3.0 * (n - 1.0);
        let of_sample = (n - 1.0) * excess / ((n - 2.0) * (n - 3.0));
        (n > 3.0 && state[2] != 0.0).then_some(of_sample)
    }
}

/// `kurtosis_pop(x)`: the excess kurtosis, of a population.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PopulationKurtosis;

impl Formula for PopulationKurtosis {
    fn add(state: &mut State, number: f64) {
        add_moments(state, number);
    }

    fn merge(state: &mut State, other: &State) {
        merge_moments(state, other);
    }

    fn result(state: &State) -> Option<f64> {
        (state[0] > 1.0 && state[2] != 0.0).then_some(standardized(state) - 3.0)
    }
}

/// Returns the fourth moment over the square of the second.
fn standardized(state: &State) -> f64 {
    let [count, _, second, _, fourth] = *state;
    count * fourth / (second * second)
}

/// Adds a number to the count, the mean, and the sums of the second to fourth powers of the
/// distances from it, without subtracting large sums (Terriberry's formulas).
fn add_moments(state: &mut State, number: f64) {
    let [count, mean, second, third, fourth] = state;
    let before = *count;
    *count += 1.0;
    let n = *count;
    let distance = number - *mean;
    let step = distance / n;
    let term = distance * step * before;
    *mean += step;
    *fourth += term * step * step * (n * n - 3.0 * n + 3.0) + 6.0 * step * step * *second
        - 4.0 * step * *third;
    *third += term * step * (n - 2.0) - 3.0 * step * *second;
    *second += term;
}

/// As [`add_moments`], for the numbers of another state (Pebay's formulas).
fn merge_moments(state: &mut State, other: &State) {
    if state[0] == 0.0 || other[0] == 0.0 {
        if state[0] == 0.0 {
            *state = *other;
        }
        return;
    }
    let [na, mean_a, a2, a3, a4] = *state;
    let [nb, mean_b, b2, b3, b4] = *other;
    let n = na + nb;
    let distance = mean_b - mean_a;
    let step = distance / n;
    let square = step * distance;
    let second = a2 + b2 + square * na * nb;
    let third = a3 + b3 + square * step * na * nb * (na - nb) + 3.0 * step * (na * b2 - nb * a2);
    let fourth = a4
        + b4
        + square * step * step * na * nb * (na * na - na * nb + nb * nb)
        + 6.0 * step * step * (na * na * b2 + nb * nb * a2)
        + 4.0 * step * (na * b3 - nb * a3);
    *state = [n, mean_a + step * nb, second, third, fourth];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<F: Formula>(numbers: &[f64]) -> State {
        let mut state = F::START;
        numbers.iter().for_each(|number| F::add(&mut state, *number));
        state
    }

    fn is_near(one: Option<f64>, other: Option<f64>) -> bool {
        one.zip(other).is_some_and(|(one, other)| (one - other).abs() < 1e-12)
    }

    /// Expected values from DuckDB.
    #[test]
    fn moments_are_those_of_all_numbers() {
        let numbers = [3.0, 1.0, 3.0, 2.0, 5.0, 5.0];
        let all = of::<Skewness>(&numbers);
        assert!(is_near(Skewness::result(&all), Some(0.040_531_674_281_322_2)));
        assert!(is_near(SampleKurtosis::result(&all), Some(-1.310_507_674_144_038_7)));
        assert!(is_near(PopulationKurtosis::result(&all), Some(-1.306_459_773_992_242)));
        for cut in 0..=numbers.len() {
            let mut state = of::<Skewness>(&numbers[..cut]);
            merge_moments(&mut state, &of::<Skewness>(&numbers[cut..]));
            assert!(is_near(Skewness::result(&state), Skewness::result(&all)), "{cut}");
            assert!(is_near(SampleKurtosis::result(&state), SampleKurtosis::result(&all)));
        }
    }

    #[test]
    fn few_or_equal_numbers_have_no_moments() {
        assert_eq!(Skewness::result(&of::<Skewness>(&[1.0, 2.0])), None);
        assert_eq!(SampleKurtosis::result(&of::<Skewness>(&[1.0, 2.0, 4.0])), None);
        assert_eq!(PopulationKurtosis::result(&of::<Skewness>(&[1.0])), None);
        assert_eq!(Skewness::result(&of::<Skewness>(&[0.1; 9])), None);
        assert_eq!(Product::result(&Product::START), None);
    }

    #[test]
    fn a_compensated_sum_loses_nothing() {
        let sum = |numbers: &[f64]| CompensatedSum::result(&of::<CompensatedSum>(numbers));
        assert_eq!(sum(&[1e100, 1.0, -1e100]), Some(1.0));
        assert_eq!(sum(&[f64::INFINITY, 1.0]), Some(f64::INFINITY));
        assert_eq!(sum(&[]), None);
        let mut parts = of::<CompensatedSum>(&[1e100, 1.0]);
        CompensatedSum::merge(&mut parts, &of::<CompensatedSum>(&[-1e100, 2.0]));
        assert_eq!(CompensatedSum::result(&parts), Some(3.0));
    }
}

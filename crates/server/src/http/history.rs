//! Samples of the last ten minutes.

use std::collections::VecDeque;

use serde_json::Value;

/// Number of samples kept: one per second for ten minutes.
pub(super) const SAMPLES_MAX: usize = 600;
/// Maximum size of a sample in bytes; a larger one is not kept. All samples take at most 4.7 MiB;
/// on an ordinary server 200 KiB.
const SAMPLE_BYTES_MAX: usize = 8 << 10;

/// Ring buffer of samples, as JSON.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: VecDeque<Box<str>>,
}

impl History {
    /// Adds a sample and drops the oldest if the ring is full.
    pub(super) fn add(&mut self, sample: &Value) {
        let sample = sample.to_string();
        if sample.len() > SAMPLE_BYTES_MAX {
            tracing::warn!(bytes = sample.len(), "a sample is too large to be kept");
            return;
        }
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample.into());
    }

    /// Returns the samples as a JSON array, oldest first.
    pub(super) fn to_json(&self) -> String {
        let bytes: usize = self.samples.iter().map(|sample| sample.len() + 1).sum();
        let mut json = String::with_capacity(bytes + 2);
        json.push('[');
        for (index, sample) in self.samples.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            json.push_str(sample);
        }
        json.push(']');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_sample_makes_way_and_huge_ones_are_left_out() -> serde_json::Result<()> {
        let mut history = History::default();
        assert_eq!(history.to_json(), "[]");
        for index in 0..=SAMPLES_MAX {
            history.add(&Value::from(index));
        }
        history.add(&Value::from("x".repeat(SAMPLE_BYTES_MAX)));
        let samples: Vec<usize> = serde_json::from_str(&history.to_json())?;
        assert_eq!(samples, (1..=SAMPLES_MAX).collect::<Vec<_>>());
        Ok(())
    }
}

//! Residency policies, and their names.
//!
//! | policy | demotes | promotes | loads into |
//! |---|---|---|---|
//! | [`SampledScore`] | the lowest scores | pages hotter than the next faster tier's mean | DRAM |
//! | [`Spitfire`] | at random | at random | a random tier |
//! | [`Adaptive`] | at a learnt rate | at a learnt threshold | DRAM |

mod adaptive;
mod score;
mod spitfire;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use adaptive::Adaptive;
pub use score::SampledScore;
pub use spitfire::Spitfire;

use crate::residency::Residency;

/// A policy in its textual form: `score`, `adaptive`, or `spitfire:` and the probabilities to
/// promote on a read, to promote on a write, to fetch below and to demote, such as
/// `spitfire:0.1,0.1,1,1`. [`FromStr`] and [`fmt::Display`] are inverse to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// [`SampledScore`].
    #[default]
    Score,
    /// [`Adaptive`].
    Adaptive,
    /// [`Spitfire`].
    Spitfire(Spitfire),
}

impl Policy {
    /// Creates the policy in its initial state.
    #[must_use]
    pub fn residency(self) -> Arc<dyn Residency> {
        match self {
            Policy::Score => Arc::new(SampledScore),
            Policy::Adaptive => Arc::new(Adaptive::default()),
            Policy::Spitfire(chances) => Arc::new(chances),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Score => f.write_str("score"),
            Policy::Adaptive => f.write_str("adaptive"),
            Policy::Spitfire(chances) => {
                let Spitfire { promote_on_read, promote_on_write, fetch_below, demote } = chances;
                write!(f, "spitfire:{promote_on_read},{promote_on_write},{fetch_below},{demote}")
            }
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "score" => Ok(Policy::Score),
            None if text == "adaptive" => Ok(Policy::Adaptive),
            Some(("spitfire", chances)) => spitfire(chances).map(Policy::Spitfire),
            _ => Err(format!(
                "there is no policy \"{text}\"; score, adaptive and spitfire:0.1,0.1,1,1 are"
            )),
        }
    }
}

fn spitfire(text: &str) -> Result<Spitfire, String> {
    let chances: Vec<f64> = text.split(',').map_while(|chance| chance.parse().ok()).collect();
    let are_four = text.split(',').count() == 4;
    let (true, &[promote_on_read, promote_on_write, fetch_below, demote]) =
        (are_four, chances.as_slice())
    else {
        return Err(format!(
            "\"{text}\" is not four probabilities: to promote on a read, to promote on a write, \
             to fetch below, to demote"
        ));
    };
    Spitfire { promote_on_read, promote_on_write, fetch_below, demote }.new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_print() {
        let all = [
            Policy::Score,
            Policy::Adaptive,
            Policy::Spitfire(Spitfire::LAZY),
            Policy::Spitfire(Spitfire { demote: 0.25, ..Spitfire::EAGER }),
        ];
        for policy in all {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!(Policy::Spitfire(Spitfire::LAZY).to_string(), "spitfire:0.1,0.1,1,1");
    }

    #[test]
    fn what_is_none_says_what_is() {
        let wrong = |text: &str| text.parse::<Policy>().expect_err("refused");
        assert!(wrong("lru").contains("score, adaptive"));
        assert!(wrong("spitfire").contains("spitfire:0.1"));
        for text in ["spitfire:", "spitfire:1,1,1", "spitfire:1,1,1,x", "spitfire:1,1,1,1,1"] {
            assert!(wrong(text).contains("four probabilities"), "{text}");
        }
        assert!(wrong("spitfire:1,2,1,1").contains("promote_on_write is 2"));
    }
}

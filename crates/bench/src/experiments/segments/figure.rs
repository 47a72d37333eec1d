//! Figures of the study.

use std::str::FromStr;

use serde::Serialize;

use crate::error::{BenchError, Result};

/// A figure of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Figure {
    /// 5: run time by block size.
    #[serde(rename = "5")]
    Blocks,
    /// Run time with everything in memory, relative to DRAM.
    #[serde(rename = "fit")]
    Fitting,
    /// 6: bytes of data and metadata.
    #[serde(rename = "6")]
    Footprint,
    /// 7a: run time by location of metadata.
    #[serde(rename = "7a")]
    Queries,
    /// 7b: time of migration by location of metadata.
    #[serde(rename = "7b")]
    Migration,
}

impl Figure {
    /// All figures.
    pub const ALL: [Figure; 5] =
        [Figure::Blocks, Figure::Fitting, Figure::Footprint, Figure::Queries, Figure::Migration];

    /// Returns the number in the study.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Blocks => "5",
            Figure::Fitting => "fit",
            Figure::Footprint => "6",
            Figure::Queries => "7a",
            Figure::Migration => "7b",
        }
    }

    /// Returns true if the figure is measured on a pair of engines that run the queries in turn.
    pub(super) fn is_of_pairs(self) -> bool {
        matches!(self, Figure::Fitting | Figure::Queries)
    }

    /// Returns true if the figure is measured by running queries, false if by moving tables only.
    pub(super) fn asks(self) -> bool {
        matches!(self, Figure::Blocks | Figure::Fitting | Figure::Queries)
    }
}

impl FromStr for Figure {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Figure> {
        let found = Figure::ALL.into_iter().find(|figure| figure.name() == text);
        found.ok_or_else(|| BenchError::input("there are the figures 5, fit, 6, 7a and 7b"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_names_of_the_study() {
        for figure in Figure::ALL {
            assert_eq!(figure.name().parse::<Figure>().expect("known"), figure);
            assert_eq!(serde_json::to_value(figure).expect("json"), figure.name());
        }
        assert!("8".parse::<Figure>().expect_err("elsewhere").to_string().contains("7a and 7b"));
    }
}

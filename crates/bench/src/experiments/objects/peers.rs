//! In-memory hash maps compared with the store: all run the same operations, in turns.
//!
//! The store and the maps are created one after the other, each with its final capacity, so that
//! the resident bytes include no memory that growth has left. All remain until the end of the
//! experiment.

#[cfg(feature = "peers")]
mod measurement;
mod turn;

use self::turn::STORE;
use super::config::Config;
use super::popularity::Popularity;
use super::rates::Way;
use crate::measure::{by_case, median, median_of};
use crate::report::{Bars, Series};

#[cfg(feature = "peers")]
pub(super) use self::measurement::measure;
pub(super) use self::turn::Turn;

/// Reports that the maps are not part of this build.
///
/// # Errors
/// Always; the message says how to build the program with them.
#[cfg(not(feature = "peers"))]
pub(super) fn measure(_: &Config, _: &mut dyn FnMut(&str)) -> crate::error::Result<Vec<Turn>> {
    Err(crate::error::BenchError::input(
        "this program was built without the maps that --peers compares with: build one with \
         cargo build --release --features peers",
    ))
}

pub(super) fn medians(rows: &[&Turn]) -> Vec<Turn> {
    let load = |turn: &Turn| (turn.way, turn.popularity, turn.threads);
    let fold = |same: &[&Turn]| {
        let stores = rows.iter().filter(|turn| turn.peer == STORE && load(turn) == load(same[0]));
        let ratios: Vec<f64> = stores
            .zip(same)
            .map(|(store, it)| store.per_core_second_m / it.per_core_second_m)
            .collect();
        Turn {
            per_second_m: median_of(same, |turn| turn.per_second_m),
            per_core_second_m: median_of(same, |turn| turn.per_core_second_m),
            store_over_it: median(&ratios),
            ..same[0].clone()
        }
    };
    by_case(rows, |turn| (turn.peer, load(turn)), fold)
}

/// Draws the rates of single operations by one thread.
pub(super) fn picture(turns: &[Turn]) -> Bars {
    let shown = |popularity| {
        let one = turns.iter().filter(|turn| turn.threads == 1 && turn.way == Way::Single);
        one.filter(move |turn| turn.popularity == popularity)
    };
    let series = |popularity: Popularity| Series {
        name: popularity.name().into(),
        values: shown(popularity).map(|turn| Some(turn.per_core_second_m)).collect(),
    };
    Bars {
        title: "95 % get, 5 % put of 32 bytes, one thread".into(),
        unit: "M/s".into(),
        categories: shown(Popularity::Uniform).map(|turn| turn.peer.to_owned()).collect(),
        series: Popularity::ALL.into_iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(feature = "peers"))]
    fn a_program_without_maps_says_how_to_build_one_with_them() {
        let config = Config { objects: 100, seconds: 0.0, rounds: 1, threads: 1 };
        let error = measure(&config, &mut |_| {}).expect_err("no maps").to_string();
        assert!(error.contains("cargo build --release --features peers"), "{error}");
    }

    #[test]
    #[cfg(feature = "peers")]
    fn all_of_them_serve_everything() {
        let config = Config { objects: 3000, seconds: 0.01, rounds: 2, threads: 2 };
        let turns = measure(&config, &mut |_| {}).expect("room");
        let found = medians(&turns.iter().collect::<Vec<_>>());
        assert_eq!((turns.len(), found.len()), (2 * 8 * 7, 8 * 7));
        assert!(found.iter().all(|turn| turn.per_second_m > 0.0), "{found:?}");
        assert_eq!(found[0].store_over_it, Some(1.0));
        assert_eq!(picture(&found).series[1].values.len(), 7);
    }
}

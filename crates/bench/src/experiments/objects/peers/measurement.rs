//! Measurement of the store and the maps, in turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use terrace_objects::ObjectId;
use terrace_sys::process::{cpu_time, resident_bytes};
use terrace_sys::size::to_usize;
use terrace_workload::maps::{LEN, Made, makers, store_of};

use super::super::store::{refused, store};
use super::{Config, Popularity, STORE, Turn, Way};
use crate::error::{BenchError, Result};

/// One of the compared maps, or the store.
struct Peer {
    name: &'static str,
    /// Bytes of memory per object, as the kernel counts them.
    taken_bytes: f64,
    table: Made,
}

pub(in crate::experiments::objects) fn measure(
    config: &Config,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Turn>> {
    let (peers, ids) = all(config, observe)?;
    let mut turns = Vec::new();
    for round in 1..=config.rounds {
        for popularity in Popularity::ALL {
            for threads in [1, config.threads.max(2)] {
                let draws: Vec<Vec<ObjectId>> =
                    (0..threads).map(|thread| popularity.draw(&ids, thread as u64)).collect();
                for way in [Way::Single, Way::Batched] {
                    let what = format!("{}, {threads} threads", way.name());
                    for peer in &peers {
                        observe(&format!("{}: {what}, round {round}", peer.name));
                        turns.push(turn(config, peer, way, popularity, &draws));
                    }
                }
            }
        }
    }
    Ok(turns)
}

/// Creates the store and the maps, and fills each with all objects. Returns them and the ids of the
/// objects, which are the keys.
fn all(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<(Vec<Peer>, Vec<ObjectId>)> {
    observe("filling the store");
    let mut ids = Vec::with_capacity(to_usize(config.objects));
    let (before, store) = (resident()?, store()?);
    for _ in 0..config.objects {
        ids.push(store.create_with(&[7; LEN]).map_err(|error| refused(&error))?);
    }
    let taken = (resident()?.saturating_sub(before) as f64) - size_of_val(&ids[..]) as f64;
    let taken_bytes = taken / config.objects as f64;
    let mut peers = vec![Peer { name: STORE, taken_bytes, table: store_of(store) }];
    for (name, make) in makers() {
        observe(&format!("filling {name}"));
        let before = resident()?;
        let table = make(&ids);
        let taken = resident()?.saturating_sub(before) as f64;
        peers.push(Peer { name, taken_bytes: taken / config.objects as f64, table });
    }
    Ok((peers, ids))
}

fn resident() -> Result<u64> {
    resident_bytes().map_err(|error| BenchError::Engine(error.to_string()))
}

fn turn(
    config: &Config,
    peer: &Peer,
    way: Way,
    popularity: Popularity,
    draws: &[Vec<ObjectId>],
) -> Turn {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (began, busy) = (Instant::now(), cpu_time());
    std::thread::scope(|scope| {
        for ids in draws {
            let (done, stop) = (&done, &stop);
            let run = || {
                done.fetch_add(peer.table.mix(way == Way::Batched, ids, stop), Ordering::Relaxed)
            };
            scope.spawn(run);
        }
        std::thread::sleep(config.lasts());
        stop.store(true, Ordering::Relaxed);
    });
    let (took, busy) = (began.elapsed().as_secs_f64(), (cpu_time() - busy).as_secs_f64());
    let millions = done.into_inner() as f64 / 1e6;
    Turn {
        peer: peer.name,
        way,
        popularity,
        threads: draws.len(),
        taken_bytes: peer.taken_bytes,
        per_second_m: millions / took,
        per_core_second_m: millions / busy,
        store_over_it: None,
    }
}

//! Language of programs: any bytes are one, and so is a program without some of its operations.

use std::fmt;

use terrace_objects::{LOCAL_MAX, OBJECT_BYTES_MAX};

/// Bytes of one operation. The first operation of a program is the setup of the store.
pub const OP_BYTES: usize = 6;

pub const MIB: usize = 1 << 20;
/// Bytes that the store charges to its budget at a time.
pub const SLAB_BYTES: usize = if cfg!(miri) { 128 << 10 } else { 2 * MIB };

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Create,
    CreateWith,
    CreateSome,
    Consecutive,
    Reserve,
    ReserveConsecutive,
    Release,
    CreateReserved,
    Get,
    GetVec,
    ReadAt,
    Put,
    WriteAt,
    Replace,
    Resize,
    Remove,
    RemoveMany,
    GetMany,
    PutMany,
    ReadOnly,
    Pin,
    Unpin,
    Lock,
    Unlock,
    Upgrade,
    Downgrade,
    Guarded,
    Defragment,
    Check,
    List,
    Exhaust,
    Budget,
    Ask,
    Dump,
    Reopen,
}

/// Verbs, with the number of values of a byte (of 256) that stand for each.
const VERBS: [(Verb, u8); 35] = [
    (Verb::Create, 18),
    (Verb::CreateWith, 34),
    (Verb::CreateSome, 8),
    (Verb::Consecutive, 6),
    (Verb::Reserve, 4),
    (Verb::ReserveConsecutive, 2),
    (Verb::Release, 4),
    (Verb::CreateReserved, 10),
    (Verb::Get, 8),
    (Verb::GetVec, 4),
    (Verb::ReadAt, 6),
    (Verb::Put, 10),
    (Verb::WriteAt, 8),
    (Verb::Replace, 18),
    (Verb::Resize, 16),
    (Verb::Remove, 20),
    (Verb::RemoveMany, 6),
    (Verb::GetMany, 3),
    (Verb::PutMany, 3),
    (Verb::ReadOnly, 7),
    (Verb::Pin, 7),
    (Verb::Unpin, 5),
    (Verb::Lock, 7),
    (Verb::Unlock, 6),
    (Verb::Upgrade, 3),
    (Verb::Downgrade, 3),
    (Verb::Guarded, 8),
    (Verb::Defragment, 4),
    (Verb::Check, 3),
    (Verb::List, 3),
    (Verb::Exhaust, 2),
    (Verb::Budget, 3),
    (Verb::Ask, 3),
    (Verb::Dump, 2),
    (Verb::Reopen, 2),
];

impl Verb {
    fn of(byte: u8) -> Self {
        let mut left = byte;
        for (verb, weight) in VERBS {
            if left < weight {
                return verb;
            }
            left -= weight;
        }
        Self::Check
    }
}

/// One operation. Its object is chosen when it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub verb: Verb,
    pub who: u16,
    len: u8,
    /// Argument, whose meaning depends on the verb.
    pub x: u8,
    /// True to run on the other thread, which creates its objects in other groups.
    pub elsewhere: bool,
}

/// Lengths around the limits of the layout, and those of workloads.
const LENS: [usize; 40] = [
    0, 1, 2, 7, 8, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 72, 100, 127, 128, 129, 200,
    256, 257, 300, 512, 700, 862, 1000, 1007, 1008, 1009, 1024, 1025, 4096, 16_384, 20_000, 65_536,
    100_000,
];
/// Lengths around which a run takes a whole slab, or more.
const LONG: [usize; 4] = [SLAB_BYTES / 2, SLAB_BYTES - 64, SLAB_BYTES, SLAB_BYTES + 1];

impl Op {
    fn decode(bytes: &[u8]) -> Self {
        Self {
            verb: Verb::of(bytes[0]),
            who: u16::from_le_bytes([bytes[1], bytes[2]]),
            len: bytes[3],
            x: bytes[4],
            elsewhere: bytes[5] % 16 == 15 && !cfg!(miri),
        }
    }

    /// Returns a length for which the test has bytes.
    pub fn len(self) -> usize {
        let x = usize::from(self.x);
        let len = match self.len % 80 {
            class @ 0..40 => LENS[usize::from(class)],
            class @ 40..44 => LONG[usize::from(class - 40)],
            44..60 => x,
            60..72 => 16 * x,
            72..79 => 80 * x,
            _ => 700 * x,
        };
        if cfg!(miri) { len.min(5000) } else { len }
    }

    /// Returns a length to request, which may be any number.
    pub fn any_len(self) -> usize {
        match (self.x, self.len % 4) {
            (255, 0) => usize::MAX,
            (255, 1) => OBJECT_BYTES_MAX + 1,
            (255, 2) => OBJECT_BYTES_MAX,
            (255, _) => 3 * SLAB_BYTES + 5,
            _ => self.len(),
        }
    }

    /// Returns a range of an object of `all` bytes; the end may lie beyond it.
    pub fn range(self, all: usize) -> (usize, usize) {
        match self.x {
            255 => (usize::MAX, 1),
            254 => (all, 1),
            253 => (all, 0),
            252 => (0, all + 1),
            _ => {
                let offset = usize::from(self.x) * 37 % (all + 1);
                (offset, self.len() % (all - offset + 1))
            }
        }
    }

    /// Number of ids to reserve at once.
    pub fn count(self) -> u64 {
        // Large enough that free ids are reused before new ones are made.
        const SPARSE: u64 = if cfg!(miri) { 100 } else { 70_000 };
        const COUNTS: [u64; 8] = [0, 1, 5, 130, 1000, SPARSE, LOCAL_MAX + 1, 20_000_000];
        COUNTS[usize::from(self.x % 8)]
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, who, x, elsewhere, .. } = self;
        let place = if *elsewhere { ", on the other thread" } else { "" };
        write!(f, "{verb:?} (who {who}, len {}, x {x}{place})", self.any_len())
    }
}

/// Setup of the store.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub bytes: usize,
    pub node: u16,
    pub budget: Option<u64>,
    /// True if ids have generations, so that an id never names a second object.
    pub generations: bool,
    /// True if changes go to a log.
    pub log: bool,
}

/// Decodes a program.
pub fn decode(bytes: &[u8]) -> (Setup, Vec<Op>) {
    let mut first = [0; OP_BYTES];
    first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    let slabs = [1, 2, 3, 6][usize::from(first[0] % 4)];
    let odd = usize::from(first[3] % 3) * 4096;
    let budgets = [2 * MIB + 64, 2 * MIB + 4096, 5 * MIB, 64 * MIB];
    let budget = budgets[usize::from(first[2] / 2 % 4)] as u64;
    let setup = Setup {
        bytes: slabs * SLAB_BYTES + odd,
        node: [0, 0, 3, u16::MAX][usize::from(first[1] % 4)],
        budget: (first[2] % 2 == 1).then_some(budget),
        generations: first[4] % 4 == 3,
        log: first[5] % 4 == 3 && !cfg!(miri),
    };
    let rest = bytes.get(OP_BYTES..).unwrap_or_default();
    (setup, rest.chunks_exact(OP_BYTES).map(Op::decode).collect())
}

/// Returns a program as a word for an environment variable.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the program that [`to_hex`] wrote.
pub fn from_hex(word: &str) -> Vec<u8> {
    let digits = word.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(|pair| byte(pair).unwrap_or_else(|| panic!("{word}: not hexadecimal"))).collect()
}

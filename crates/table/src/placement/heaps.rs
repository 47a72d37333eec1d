//! Registry of an engine's heaps, by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use terrace_heap::{Backing, Heap, HeapBuffer, HeapConfig, HeapError, Metadata, Retain};
use terrace_ledger::Ledger;
use terrace_region::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, Contents, Region, RegionConfig, Source};
use terrace_store::{Blocks, Distance, EmulatedBlocks, EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{MIB, parse_bytes, to_u64, to_usize};
use terrace_sys::sync::{lock, read, write};

use crate::error::SqlError;
use terrace_governor::memory::MemoryBudget;

/// Reserved names: placements of a table (`pool`, `auto`) and the location of segments that are in
/// no memory (`store`, in `terrace.segments`). A heap may have neither one of these names nor the
/// name of a tier of the pool.
const RESERVED: [&str; 3] = ["pool", "auto", "store"];

/// Maximum size of a heap, which has an address for each byte.
const BYTES_MAX: u64 = 64 << 40;

/// Default DRAM of a heap over a file or emulated memory: 1 / `DRAM_SHARE` of the budget.
const DRAM_SHARE: u64 = 8;

/// DRAM that a heap over a region takes while empty, in addition to the two blocks in which its
/// metadata begin.
const FIRST_BYTES: u64 = 8 * MIB;

/// Memory that backs a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Memory {
    Dram,
    Node(u32),
    /// A temporary file in this directory, or in that of the database.
    File(Option<PathBuf>),
    /// Emulated memory with the latency of an appliance at this distance. It is DRAM, as much as
    /// was ever written, and is not charged to any budget: it stands for a device.
    Emulated(Distance),
}

impl Memory {
    /// Returns true if the heap is over a region, which caches a part of its bytes in DRAM.
    fn is_beyond(&self) -> bool {
        matches!(self, Self::File(_) | Self::Emulated(_))
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(latency) = text.strip_prefix("emu@") {
            return latency.parse().map(Self::Emulated);
        }
        match text.split_once(':') {
            None if text == "dram" => Ok(Self::Dram),
            None if text == "file" => Ok(Self::File(None)),
            None if text == "emu" => Ok(Self::Emulated(Distance::default())),
            Some(("file", directory)) => Ok(Self::File(Some(directory.into()))),
            Some(("node", node)) => node.parse().map(Self::Node).map_err(|e| e.to_string()),
            _ => Err("there is dram, node:NUMBER, file, file:DIRECTORY, emu and emu@LATENCY, \
                      such as emu@10us"
                .to_owned()),
        }
    }
}

/// Parameters of a heap to be created.
#[derive(Clone, Debug)]
pub struct HeapDefinition {
    memory: Memory,
    bytes: u64,
    dram_bytes: Option<u64>,
    block_bytes: usize,
    metadata: Metadata,
    retain: Retain,
}

impl HeapDefinition {
    /// Parses the options of CREATE HEAP: keys and values.
    pub fn of(options: &[(String, String)]) -> Result<Self, SqlError> {
        let mut definition = Self {
            memory: Memory::Dram,
            bytes: 0,
            dram_bytes: None,
            block_bytes: 256 << 10,
            metadata: Metadata::Separate,
            retain: Retain::default(),
        };
        for (key, value) in options {
            definition.take(key, value).map_err(|instead| SqlError::Refused {
                what: format!("{key} = '{value}' for a heap"),
                instead,
            })?;
        }
        let refused = |what: &str, instead: &str| {
            Err(SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() })
        };
        if definition.bytes == 0 {
            return refused("a heap without a size", "say size = '1GiB', for example");
        }
        if definition.dram_bytes.is_some() && !definition.memory.is_beyond() {
            return refused("dram for a heap that is not over a file or emu", "leave it out");
        }
        Ok(definition)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "memory" => self.memory = value.parse()?,
            "size" => {
                self.bytes = parse_bytes(value)?;
                if self.bytes > BYTES_MAX {
                    return Err(
                        "a heap has at most 64TiB: a process has 128TiB of addresses".into()
                    );
                }
            }
            "dram" => self.dram_bytes = Some(parse_bytes(value)?),
            "block" => {
                let bytes = to_usize(parse_bytes(value)?);
                let possible = BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX;
                if !bytes.is_power_of_two() || !possible.contains(&bytes) {
                    return Err("blocks are powers of two from 4KiB to 4MiB".to_owned());
                }
                self.block_bytes = bytes;
            }
            "metadata" => {
                let places = [Metadata::Separate, Metadata::Together];
                let place = places.into_iter().find(|place| place.as_str() == value);
                self.metadata = place.ok_or("there is separate and together")?;
            }
            "retain" => {
                self.retain = match value {
                    "on" => Retain::default(),
                    "off" => Retain::Off,
                    _ => return Err("there is on and off".to_owned()),
                }
            }
            _ => {
                return Err("options are memory, size, dram, block, metadata and retain".to_owned());
            }
        }
        Ok(())
    }

    /// Opens the heap, after the pool has made room for its first bytes in DRAM as far as it can.
    fn open_in(&self, name: &str, budget: &MemoryBudget, home: &Path) -> Result<Heap, SqlError> {
        if self.memory.is_beyond() {
            budget.make_room(FIRST_BYTES + 2 * to_u64(self.block_bytes));
        }
        self.open(name, budget.ledger(), home)
    }

    fn open(&self, name: &str, ledger: &Ledger, home: &Path) -> Result<Heap, SqlError> {
        let bytes = to_usize(self.bytes);
        let (memory, ledger) = match &self.memory {
            Memory::Dram => (Backing::Dram { bytes }, Some(ledger.clone())),
            Memory::Node(node) => (Backing::Node { node: *node, bytes }, None),
            Memory::File(directory) => {
                let blocks = self.file(directory.as_deref().unwrap_or(home))?;
                (self.over(name, ledger, Arc::new(blocks))?, None)
            }
            Memory::Emulated(distance) => {
                let blocks = EmulatedBlocks::over_memory(self.bytes, *distance);
                (self.over(name, ledger, Arc::new(blocks))?, None)
            }
        };
        let (metadata, retain) = (self.metadata, self.retain);
        let config = HeapConfig { metadata, retain, ledger, ..HeapConfig::new(name, memory) };
        Ok(Heap::new(config)?)
    }

    fn file(&self, directory: &Path) -> Result<FileBlocks, SqlError> {
        let no_file = |error: std::io::Error| SqlError::Refused {
            what: format!("a heap with a file in {}: {error}", directory.display()),
            instead: "name a directory that can be written".to_owned(),
        };
        let file = DirectFile::temporary(directory).map_err(no_file)?;
        FileBlocks::open(file, self.bytes, EngineChoice::Auto).map_err(no_file)
    }

    fn over(
        &self,
        name: &str,
        ledger: &Ledger,
        blocks: Arc<dyn Blocks>,
    ) -> Result<Backing, SqlError> {
        let source = Source { blocks, offset: 0, len: self.bytes, contents: Contents::Blank };
        let config = RegionConfig {
            block_bytes: self.block_bytes,
            cap_bytes: self.dram_bytes.unwrap_or(ledger.budget() / DRAM_SHARE),
            ..RegionConfig::new(name, ledger.clone())
        };
        Ok(Backing::region(Arc::new(Region::new(config, source)?)))
    }
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A heap with its name.
#[derive(Debug)]
pub struct NamedHeap {
    heap: Heap,
    /// Unique number, also among heaps of the same name.
    number: u64,
    memory: Memory,
    /// True once the heap is dropped: no more segments are copied to it.
    dropped: RwLock<bool>,
    /// Number of frames that the budget had refused to its region at the last check.
    denied: AtomicU64,
}

impl NamedHeap {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.heap.name()
    }

    /// Returns its allocator.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Keeps the heap from being dropped while the guard lives; `None` if it has been dropped.
    pub(super) fn stay(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let dropped = read(&self.dropped);
        (!*dropped).then_some(dropped)
    }

    /// Returns true if it has been dropped.
    pub(super) fn is_dropped(&self) -> bool {
        self.stay().is_none()
    }

    /// Returns true if its bytes are always in DRAM.
    pub(crate) fn is_dram(&self) -> bool {
        self.memory == Memory::Dram
    }

    /// Returns true if reading it involves no transfer from a device.
    pub(super) fn is_memory(&self) -> bool {
        !self.memory.is_beyond()
    }

    /// Returns the bytes of DRAM that its region may still take, if the budget has refused frames
    /// to the region since the last call; otherwise zero.
    pub(super) fn lacks(&self) -> u64 {
        let Some(region) = self.heap.region() else { return 0 };
        let denied = region.denied();
        if self.denied.swap(denied, Ordering::Relaxed) == denied {
            return 0;
        }
        region.cap_bytes().saturating_sub(region.stats().resident_bytes)
    }

    pub(super) fn copy(&self, bytes: &[u8], align: usize) -> Result<HeapBuffer, HeapError> {
        self.heap.copy(bytes, align)
    }
}

/// Registry of the heaps of an engine, by name.
#[derive(Debug, Default)]
pub struct Heaps {
    named: Mutex<BTreeMap<String, Arc<NamedHeap>>>,
}

impl Heaps {
    fn named(&self) -> MutexGuard<'_, BTreeMap<String, Arc<NamedHeap>>> {
        lock(&self.named)
    }

    /// Creates a heap; with `keep`, an existing heap is left as it is. The heap takes DRAM of
    /// `budget`, and has its file in `directory` unless the definition names another. `tiers` are
    /// the names of the pool's tiers, which no heap may have.
    pub fn create(
        &self,
        name: &str,
        definition: &HeapDefinition,
        keep: bool,
        (budget, directory): (&MemoryBudget, &Path),
        tiers: &[String],
    ) -> Result<(), SqlError> {
        if RESERVED.contains(&name) || tiers.iter().any(|tier| tier == name) {
            return Err(SqlError::Refused {
                what: format!("a heap called {name}"),
                instead: "the name means something else where tiers are named".to_owned(),
            });
        }
        if self.get(name).is_some() {
            return if keep { Ok(()) } else { Err(SqlError::HeapExists { name: name.to_owned() }) };
        }
        let heap = definition.open_in(name, budget, directory)?;
        let memory = definition.memory.clone();
        // Two callers may create it at once: the second one finds it here.
        let mut named = self.named();
        if named.contains_key(name) && !keep {
            return Err(SqlError::HeapExists { name: name.to_owned() });
        }
        let (dropped, denied) = (RwLock::new(false), AtomicU64::new(0));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        named
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(NamedHeap { heap, number, memory, dropped, denied }));
        Ok(())
    }

    /// Returns a heap by its name.
    pub fn get(&self, name: &str) -> Option<Arc<NamedHeap>> {
        self.named().get(name).cloned()
    }

    /// Removes a heap from the registry, so that no more segments move to it. Its memory is freed
    /// with the last segment copied to it.
    pub fn take(&self, name: &str) -> Option<Arc<NamedHeap>> {
        let heap = self.named().remove(name)?;
        *write(&heap.dropped) = true;
        Some(heap)
    }

    /// Returns all heaps, by name.
    pub fn all(&self) -> Vec<Arc<NamedHeap>> {
        self.named().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &[(&str, &str)]) -> Vec<(String, String)> {
        text.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_say_what_a_heap_is() {
        let all = [("memory", "file:/tmp"), ("size", "1GiB"), ("dram", "64MiB"), ("retain", "off")];
        let definition = HeapDefinition::of(&options(&all)).expect("a heap");
        assert_eq!(definition.memory, Memory::File(Some("/tmp".into())));
        assert_eq!((definition.bytes, definition.dram_bytes), (1 << 30, Some(64 << 20)));
        assert_eq!(definition.retain, Retain::Off);
        for (text, latency_us) in [("emu", 10), ("emu@10us", 10), ("emu@1ms", 1000)] {
            let memory: Memory = text.parse().expect("emulated");
            let Memory::Emulated(distance) = &memory else { panic!("{memory:?}") };
            assert_eq!(distance.latency, std::time::Duration::from_micros(latency_us));
            assert!(memory.is_beyond());
        }
    }

    #[test]
    fn what_makes_no_heap_is_named() {
        let cases: [(&[(&str, &str)], &str); 11] = [
            (&[], "size"),
            (&[("memory", "emu"), ("size", "16000000TiB")], "at most 64TiB"),
            (&[("size", "x")], "size = 'x'"),
            (&[("size", "1GiB"), ("dram", "1MiB")], "not over a file"),
            (&[("memory", "disk")], "node:NUMBER"),
            (&[("memory", "disk")], "emu@10us"),
            (&[("memory", "emu@far")], "\"far\" is not a delay"),
            (&[("metadata", "far")], "separate"),
            (&[("block", "16777215TiB")], "from 4KiB to 4MiB"),
            (&[("block", "300KiB")], "powers of two"),
            (&[("colour", "red")], "colour = 'red'"),
        ];
        for (given, told) in cases {
            let error = HeapDefinition::of(&options(given)).expect_err("no heap").to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}

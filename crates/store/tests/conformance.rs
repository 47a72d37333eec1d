//! The conformance suite of stores, over every kind of blocks and engine.

use std::sync::Arc;

use terrace_store::{
    Blocks, Distance, Done, EmulatedBlocks, EngineChoice, FileBlocks, Io, MemoryBlocks,
};
use terrace_sys::file::DirectFile;
use terrace_testkit::device::{LoopDevice, or_skip};
use terrace_testkit::{FaultyBlocks, store_conformance};

fn file(bytes: u64, choice: EngineChoice) -> Option<Arc<dyn Blocks>> {
    let file = DirectFile::temporary(&std::env::temp_dir()).expect("a writable directory");
    Some(Arc::new(FileBlocks::open(file, bytes, choice).expect("the engine works here")))
}

/// A loop device that lives as long as the blocks on it.
struct DeviceBlocks {
    blocks: Option<FileBlocks>,
    _device: LoopDevice,
}

impl DeviceBlocks {
    fn make(bytes: u64, choice: EngineChoice) -> Option<Arc<dyn Blocks>> {
        let device = or_skip("a block device", LoopDevice::attach(bytes))?;
        let file = DirectFile::device(device.path()).expect("attached above");
        let blocks = FileBlocks::open(file, bytes, choice).expect("the engine works here");
        Some(Arc::new(DeviceBlocks { blocks: Some(blocks), _device: device }))
    }

    fn blocks(&self) -> &FileBlocks {
        self.blocks.as_ref().expect("taken by drop alone")
    }
}

impl Drop for DeviceBlocks {
    fn drop(&mut self) {
        self.blocks = None; // Closed before the device is detached.
    }
}

impl Blocks for DeviceBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        self.blocks().run(batch, done);
    }

    fn sync(&self) -> std::io::Result<()> {
        self.blocks().sync()
    }

    fn ensure(&self, end_bytes: u64) -> std::io::Result<()> {
        self.blocks().ensure(end_bytes)
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        self.blocks().punch(offset, len_bytes)
    }

    fn truncate(&self, end_bytes: u64) -> std::io::Result<()> {
        self.blocks().truncate(end_bytes)
    }

    fn is_blank(&self) -> std::io::Result<bool> {
        self.blocks().is_blank()
    }

    fn len_bytes(&self) -> std::io::Result<u64> {
        self.blocks().len_bytes()
    }

    fn alignment_bytes(&self) -> u64 {
        self.blocks().alignment_bytes()
    }

    fn kind(&self) -> &str {
        self.blocks().kind()
    }
}

store_conformance!(memory, |bytes| Some(Arc::new(MemoryBlocks::new(bytes))));
store_conformance!(emulated, |bytes| Some(Arc::new(EmulatedBlocks::over_memory(
    bytes,
    Distance::default()
))));
store_conformance!(file_uring, |bytes| file(bytes, EngineChoice::Uring));
store_conformance!(file_pread, |bytes| file(bytes, EngineChoice::Pread));
store_conformance!(device_uring, |bytes| DeviceBlocks::make(bytes, EngineChoice::Uring));
store_conformance!(device_pread, |bytes| DeviceBlocks::make(bytes, EngineChoice::Pread));
store_conformance!(faulty_without_faults, |bytes| Some(Arc::new(FaultyBlocks::new(
    Arc::new(MemoryBlocks::new(bytes)),
    0
))));

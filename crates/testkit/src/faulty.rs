//! Fault-injecting blocks that fail as devices do.
//!
//! # The fault model
//!
//! A device, and the path to it, may inflict each of the following on any transfer. Each is a
//! [`Fault`], listed with the required behaviour of a store.
//!
//! | fault | the device | the store |
//! |---|---|---|
//! | [`Fault::Eio`] | fails; transfers nothing | a named error; a write or sync latches |
//! | [`Fault::Short`] | transfers a part, then fails | a named error; a write latches |
//! | [`Fault::Full`] | has no space (ENOSPC) | `Full`; usable again after freeing |
//! | [`Fault::Torn`] | writes a part, reports success | `Corrupt` at the next read |
//! | [`Fault::Lost`] | writes nothing, reports success | `Corrupt` at the next read |
//! | [`Fault::Misdirected`] | writes elsewhere, reports success | `Corrupt` at both offsets |
//! | [`Fault::FlippedBit`] | flips a bit, in a read or write, reports success | `Corrupt` |
//! | [`Fault::Delay`] | takes longer | waits |
//!
//! Parts are multiples of 512 bytes, since sectors are written atomically. The model has no fault
//! that changes bytes and preserves their checksum: a 32-bit checksum misses one in 4 billion
//! random changes. Nor does it have a read of an older write of the same extent under that write's
//! checksum: callers keep checksums apart from the device.
//!
//! Faults are planned ([`When::Nth`]) or drawn from a seed ([`When::OneIn`]); the same seed and the
//! same order of transfers give the same faults.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use terrace_store::{Blocks, Buffer, Done, Io};
use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::seed::Rng;

/// Fault of a transfer or call; see the table of the module.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with an input/output error.
    Eio,
    /// The call fails, as the device has no space left.
    Full,
    /// A part is transferred, then the transfer fails.
    Short,
    /// A part is written, and success is reported.
    Torn,
    /// No byte is written, and success is reported.
    Lost,
    /// The bytes are written to another offset, and success is reported.
    Misdirected,
    /// One bit is flipped, and success is reported.
    FlippedBit,
    /// The transfer takes this much longer, in addition to any other fault.
    Delay(Duration),
}

/// Kind of the calls that a rule applies to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Each read of a batch.
    Read,
    /// Each write of a batch.
    Write,
    /// [`Blocks::sync`].
    Sync,
    /// [`Blocks::ensure`].
    Grow,
}

/// Calls of that kind that get the fault.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Only the n-th call after the rule was added, counted from 1.
    Nth(u64),
    /// Each call with a probability of one in this number.
    OneIn(u64),
    /// Every call.
    Always,
}

#[derive(Debug)]
struct Rule {
    target: Target,
    when: When,
    fault: Fault,
    calls: u64,
}

struct Plan {
    rules: Vec<Rule>,
    rng: Rng,
    struck: Vec<(Target, Fault)>,
    /// End of the blocks' space in bytes; misdirected writes stay below it.
    end_bytes: u64,
}

impl Plan {
    /// Draws the fault of one call: that of the first rule that applies, plus all delays. All rules
    /// of the target count the call.
    fn draw(&mut self, target: Target) -> Drawn {
        let mut drawn = Drawn::default();
        for rule in self.rules.iter_mut().filter(|rule| rule.target == target) {
            rule.calls += 1;
            let strikes = match rule.when {
                When::Nth(nth) => rule.calls == nth,
                When::OneIn(times) => self.rng.one_in(times),
                When::Always => true,
            };
            match rule.fault {
                _ if !strikes => continue,
                Fault::Delay(time) => drawn.delay += time,
                _ if drawn.fault.is_some() => continue,
                fault => drawn.fault = Some(fault),
            }
            self.struck.push((target, rule.fault));
        }
        drawn
    }
}

#[derive(Default)]
struct Drawn {
    delay: Duration,
    fault: Option<Fault>,
}

/// Blocks that forward to inner blocks and inject faults.
pub struct FaultyBlocks {
    inner: Arc<dyn Blocks>,
    plan: Mutex<Plan>,
}

impl FaultyBlocks {
    /// Creates blocks that behave as `inner` until a rule is added. Random faults are drawn from
    /// `seed`.
    #[must_use]
    pub fn new(inner: Arc<dyn Blocks>, seed: u64) -> FaultyBlocks {
        let rng = Rng::new(seed);
        let plan = Plan { rules: Vec::new(), rng, struck: Vec::new(), end_bytes: 0 };
        FaultyBlocks { inner, plan: Mutex::new(plan) }
    }

    /// Adds a rule.
    pub fn inject(&self, target: Target, when: When, fault: Fault) {
        self.plan().rules.push(Rule { target, when, fault, calls: 0 });
    }

    /// Removes all rules: the device works from now on; bytes that it damaged stay damaged.
    pub fn heal(&self) {
        self.plan().rules.clear();
    }

    /// Returns the faults injected so far, in order.
    #[must_use]
    pub fn struck(&self) -> Vec<(Target, Fault)> {
        self.plan().struck.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        lock(&self.plan)
    }

    /// Reads from the inner blocks without a fault.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let mut batch = [Io::read(offset, data)];
        self.inner.run(&mut batch, &|_| ());
        let [io] = batch;
        io.result
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut batch = [Io::write(offset, data)];
        self.inner.run(&mut batch, &|_| ());
        let [io] = batch;
        io.result
    }

    fn strike(&self, fault: Fault, offset: u64, buffer: &mut Buffer<'_>) -> io::Result<()> {
        match (fault, buffer) {
            (Fault::Eio, _) => Err(io::Error::from_raw_os_error(EIO)),
            (Fault::Full, _) => Err(io::ErrorKind::StorageFull.into()),
            (Fault::Delay(_), buffer) => self.pass(offset, buffer),
            (Fault::Short, Buffer::ReadInto(data)) => {
                let part = self.part(data.len());
                self.read(offset, data)?;
                data[part..].fill(0xee);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            (Fault::Short, Buffer::WriteFrom(data)) => {
                self.write_part(offset, data)?;
                Err(io::ErrorKind::WriteZero.into())
            }
            (Fault::FlippedBit, Buffer::ReadInto(data)) => {
                self.read(offset, data)?;
                self.flip(data);
                Ok(())
            }
            (Fault::FlippedBit, Buffer::WriteFrom(data)) => {
                let mut copy = AlignedBuffer::copy_of(data);
                self.flip(&mut copy);
                self.write(offset, &copy)
            }
            (Fault::Torn, Buffer::WriteFrom(data)) => self.write_part(offset, data),
            (Fault::Lost, Buffer::WriteFrom(_)) => Ok(()),
            (Fault::Misdirected, Buffer::WriteFrom(data)) => self.write_elsewhere(offset, data),
            (Fault::Torn | Fault::Lost | Fault::Misdirected, Buffer::ReadInto(_)) => {
                Err(io::Error::other("the fault model has this fault for writes alone"))
            }
        }
    }

    fn pass(&self, offset: u64, buffer: &mut Buffer<'_>) -> io::Result<()> {
        match buffer {
            Buffer::ReadInto(data) => self.read(offset, data),
            Buffer::WriteFrom(data) => self.write(offset, data),
        }
    }

    fn flip(&self, data: &mut [u8]) {
        let mut plan = self.plan();
        let byte = plan.rng.index(data.len());
        data[byte] ^= 1 << plan.rng.below(8);
    }

    /// Draws a multiple of a sector above zero and below `len`.
    fn part(&self, len: usize) -> usize {
        let sectors = to_u64(len) / SECTOR_BYTES;
        to_usize((1 + self.plan().rng.below(sectors.max(2) - 1)) * SECTOR_BYTES)
    }

    /// Writes only the first sectors of `data`. Writes the whole range, the rest with its present
    /// bytes, because the inner blocks may not accept single sectors.
    fn write_part(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let part = self.part(data.len());
        let mut block = AlignedBuffer::zeroed(data.len());
        self.read(offset, &mut block)?;
        block[..part].copy_from_slice(&data[..part]);
        self.write(offset, &block)
    }

    /// Writes `data` directly behind or before its range; loses the write if neither is in the
    /// blocks' space.
    fn write_elsewhere(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let len = to_u64(data.len());
        let end_bytes = self.plan().end_bytes;
        if offset + 2 * len <= end_bytes {
            return self.write(offset + len, data);
        }
        match offset.checked_sub(len) {
            Some(before) => self.write(before, data),
            None => Ok(()),
        }
    }
}

const SECTOR_BYTES: u64 = 512;
/// Error number of `EIO` on Linux.
const EIO: i32 = 5;

impl Blocks for FaultyBlocks {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        let target = |io: &Io<'_>| if io.buffer.is_write() { Target::Write } else { Target::Read };
        let all: Vec<Drawn> = {
            let mut plan = self.plan();
            batch.iter().map(|io| plan.draw(target(io))).collect()
        };
        if all.iter().all(|drawn| drawn.delay.is_zero() && drawn.fault.is_none()) {
            return self.inner.run(batch, done);
        }
        for (io, drawn) in batch.iter_mut().zip(all) {
            std::thread::sleep(drawn.delay);
            io.result = match drawn.fault {
                None => self.pass(io.offset, &mut io.buffer),
                Some(fault) => self.strike(fault, io.offset, &mut io.buffer),
            };
            if io.result.is_ok() {
                done(io);
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let drawn = self.plan().draw(Target::Sync);
        call_fault(drawn)?;
        self.inner.sync()
    }

    fn ensure(&self, end_bytes: u64) -> io::Result<()> {
        let drawn = self.plan().draw(Target::Grow);
        call_fault(drawn)?;
        self.inner.ensure(end_bytes)?;
        let mut plan = self.plan();
        plan.end_bytes = plan.end_bytes.max(end_bytes);
        Ok(())
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.inner.punch(offset, len_bytes)
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        self.inner.truncate(end_bytes)?;
        self.plan().end_bytes = end_bytes;
        Ok(())
    }

    fn is_blank(&self) -> io::Result<bool> {
        self.inner.is_blank()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.inner.len_bytes()
    }

    fn room_bytes(&self) -> u64 {
        self.inner.room_bytes()
    }

    fn alignment_bytes(&self) -> u64 {
        self.inner.alignment_bytes()
    }

    fn kind(&self) -> &str {
        "faulty"
    }
}

/// Applies a fault to a call that transfers no bytes.
fn call_fault(drawn: Drawn) -> io::Result<()> {
    std::thread::sleep(drawn.delay);
    match drawn.fault {
        None | Some(Fault::Delay(_)) => Ok(()),
        Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
        Some(_) => Err(io::Error::from_raw_os_error(EIO)),
    }
}

#[cfg(test)]
mod tests {
    use terrace_store::MemoryBlocks;

    use super::*;

    fn faulty() -> FaultyBlocks {
        let faulty = FaultyBlocks::new(Arc::new(MemoryBlocks::new(1 << 20)), 7);
        faulty.ensure(1 << 20).expect("room");
        faulty
    }

    fn page(value: u8) -> AlignedBuffer {
        AlignedBuffer::copy_of(&[value; 4096])
    }

    fn run(blocks: &FaultyBlocks, io: Io<'_>) -> io::Result<()> {
        let mut batch = [io];
        blocks.run(&mut batch, &|_| ());
        let [io] = batch;
        io.result
    }

    #[test]
    fn the_nth_write_fails_and_only_that() {
        let blocks = faulty();
        blocks.inject(Target::Write, When::Nth(2), Fault::Eio);
        let outcomes: Vec<bool> =
            (0..4).map(|_| run(&blocks, Io::write(0, &page(1))).is_ok()).collect();
        assert_eq!(outcomes, [true, false, true, true]);
        assert_eq!(blocks.struck(), [(Target::Write, Fault::Eio)]);
    }

    #[test]
    fn silent_faults_report_success_and_damage() {
        for fault in [Fault::Torn, Fault::Lost, Fault::Misdirected, Fault::FlippedBit] {
            let blocks = faulty();
            run(&blocks, Io::write(4096, &page(1))).expect("sound");
            blocks.inject(Target::Write, When::Nth(1), fault);
            run(&blocks, Io::write(4096, &page(2))).expect("the fault is silent");
            let mut back = page(0);
            run(&blocks, Io::read(4096, &mut back)).expect("sound");
            assert_ne!(&*back, &*page(2), "{fault:?}");
            let mut beside = page(0);
            run(&blocks, Io::read(8192, &mut beside)).expect("sound");
            assert_eq!(*beside == *page(2), fault == Fault::Misdirected);
        }
    }

    #[test]
    fn what_fails_may_take_long_before_it_does() {
        let blocks = faulty();
        let time = Duration::from_millis(20);
        blocks.inject(Target::Write, When::Always, Fault::Delay(time));
        blocks.inject(Target::Write, When::Always, Fault::Full);
        let began = std::time::Instant::now();
        let error = run(&blocks, Io::write(0, &page(1))).expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(began.elapsed() >= time);
    }

    #[test]
    fn chance_repeats_with_its_seed() {
        let outcomes = |seed| {
            let blocks = FaultyBlocks::new(Arc::new(MemoryBlocks::new(1 << 20)), seed);
            blocks.inject(Target::Read, When::OneIn(3), Fault::Eio);
            let read = || run(&blocks, Io::read(0, &mut page(0))).is_ok();
            (0..64).map(|_| read()).collect::<Vec<bool>>()
        };
        assert_eq!(outcomes(5), outcomes(5));
        assert_ne!(outcomes(5), outcomes(6));
    }

    #[test]
    fn calls_without_bytes_fail_too_and_heal() {
        let blocks = faulty();
        blocks.inject(Target::Sync, When::Always, Fault::Eio);
        blocks.inject(Target::Grow, When::Always, Fault::Full);
        assert_eq!(blocks.sync().expect_err("planned").raw_os_error(), Some(EIO));
        let error = blocks.ensure(8192).expect_err("planned");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        blocks.heal();
        blocks.sync().expect("sound");
        blocks.ensure(8192).expect("sound");
    }
}

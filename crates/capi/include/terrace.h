/*
 * Terrace: heaps and regions, memory larger than DRAM, for C and C++.
 *
 * Functions answer a terrace_status, or a pointer that is NULL where they fail. What went wrong is
 * said by terrace_last_status and terrace_last_error, for each thread. NULL as an argument is an
 * error and never read, but where it says otherwise. A call that fails leaves the place for its
 * answer alone. Nothing unwinds or ends the process.
 *
 * Sizes are bytes. Addresses come from heaps and regions and end with them.
 */

#ifndef TERRACE_H
#define TERRACE_H

/*
 * Made by cbindgen from the sources of terrace-capi, whose test `header` says how to make it anew.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A flag of terrace_heap_options: the heap takes what each request needs and gives back what is
/// freed, instead of taking ever larger pieces and keeping them.
#define TERRACE_HEAP_RETAIN_OFF 1

/// A flag of terrace_heap_options: threads keep nothing of what they free for their next requests.
#define TERRACE_HEAP_THREAD_CACHES_OFF 2

/// Value of terrace_heap_options.decay_ms: freed pages are kept for good.
#define TERRACE_HEAP_KEEP -1

/// Value of terrace_region_options.ahead_bytes: nothing is asked for ahead.
#define TERRACE_AHEAD_OFF UINT64_MAX

/// Bytes of a text in statistics, the zero at its end included.
#define TERRACE_STATS_TEXT_BYTES 256

/// What a call answers.
///
/// Functions that answer a pointer answer NULL where this would not be TERRACE_STATUS_OK;
/// terrace_last_status and terrace_last_error tell more.
typedef enum terrace_status {
    /// It is done.
    TERRACE_STATUS_OK = 0,
    /// An argument is NULL, out of range, or makes no sense with the others. Nothing was done.
    TERRACE_STATUS_INVALID = 1,
    /// Memory, addresses, budget or space on a device are not to be had.
    TERRACE_STATUS_NO_ROOM = 2,
    /// The file, the device or the kernel failed.
    TERRACE_STATUS_IO = 3,
    /// The kernel does not offer what it takes, or not to this process.
    TERRACE_STATUS_UNSUPPORTED = 4,
    /// Blocks stayed pinned, or their transfers did not end, within the region's patience.
    TERRACE_STATUS_TIMEOUT = 5,
    /// The library has a fault. It goes on, but what the call should have done may be half done.
    TERRACE_STATUS_PANIC = 6,
} terrace_status;

/// How blocks get into their place, for terrace_region_options.method.
typedef enum terrace_method {
    /// By moving where the kernel can (Linux 6.8), by copying otherwise.
    TERRACE_METHOD_AUTO = 0,
    /// Their pages are moved.
    TERRACE_METHOD_MOVE = 1,
    /// Their bytes are copied in. Memory that direct I/O or registered buffers write to must then
    /// be pinned.
    TERRACE_METHOD_COPY = 2,
} terrace_method;

/// How bytes of a region are used, for terrace_region_advise.
typedef enum terrace_advice {
    /// Blocks are touched one after the other: the next ones are asked for ahead, as without
    /// advice. Holds for the whole region.
    TERRACE_ADVICE_SEQUENTIAL = 0,
    /// Blocks are touched in no order: nothing is asked for ahead. Holds for the whole region.
    TERRACE_ADVICE_RANDOM = 1,
    /// The bytes never change again: blocks leave without a look at whether they did. What is
    /// written to them nevertheless may be lost.
    TERRACE_ADVICE_IMMUTABLE = 2,
    /// The bytes may change, as without advice.
    TERRACE_ADVICE_MUTABLE = 3,
    /// The bytes are not needed any more. Blocks that lie in the part as a whole leave without
    /// being written, and are read as zeros or as they were, until they are used again.
    TERRACE_ADVICE_UNUSED = 4,
    /// The bytes are used again, as without advice, and may change; said before they are written
    /// to.
    TERRACE_ADVICE_USED = 5,
} terrace_advice;

/// Where a heap keeps what it knows of its memory, for terrace_heap_options.metadata.
typedef enum terrace_metadata {
    /// In DRAM, wherever the data are: allocating touches nothing of a slow tier.
    TERRACE_METADATA_SEPARATE = 0,
    /// In the heap's memory, beside the data.
    TERRACE_METADATA_TOGETHER = 1,
} terrace_metadata;

/// An allocator whose memory is DRAM, a memory node, or a part of a region.
///
/// All functions may be called from any thread, except terrace_heap_reset and terrace_heap_close
/// beside another call with the same handle.
typedef struct terrace_heap terrace_heap;

/// One budget of DRAM that several regions and heaps count against.
///
/// All functions may be called from any thread, except terrace_ledger_free beside another call
/// with the same handle.
typedef struct terrace_ledger terrace_ledger;

/// A part of a region that stays in memory, and at its addresses, until terrace_region_unpin.
///
/// What a system call, a device or another process must not find absent is pinned before.
typedef struct terrace_pin terrace_pin;

/// Memory whose blocks live in a file or a device, larger than the DRAM it takes: a block comes
/// into memory when somebody touches it, and leaves when the cap is reached.
///
/// Who touches a block that cannot be read gets SIGBUS. A child process (fork) does not have the
/// memory. Several heaps may use parts of one region.
///
/// All functions may be called from any thread, except terrace_region_close beside another call
/// with the same handle.
typedef struct terrace_region terrace_region;

/// How a heap is set up. Zero, or NULL, is the usual value of every field: begin with
/// terrace_heap_options_default or zeroed memory.
typedef struct terrace_heap_options {
    /// Its name in errors and statistics. NULL: "heap".
    const char *name;
    /// The budget that memory in use counts against; an error for a heap over a region, which
    /// counts its blocks itself. NULL: none.
    const struct terrace_ledger *ledger;
    /// Bytes of the largest piece that is taken ahead of need, 4096 at least. 0: 8388608.
    uint64_t growth_bytes_max;
    /// A terrace_metadata.
    uint32_t metadata;
    /// How long freed pages are kept before they are given back, in milliseconds. 0: 1000;
    /// TERRACE_HEAP_KEEP: for good.
    int32_t decay_ms;
    /// The sum of any of TERRACE_HEAP_RETAIN_OFF and TERRACE_HEAP_THREAD_CACHES_OFF.
    uint32_t flags;
} terrace_heap_options;

/// How a region is set up. Zero, or NULL, is the usual value of every field but the cap, which has
/// none without a ledger: begin with terrace_region_options_default or zeroed memory.
typedef struct terrace_region_options {
    /// Its name in errors and statistics. NULL: "region".
    const char *name;
    /// The budget that blocks in memory count against, beside the cap. NULL: the cap alone.
    const struct terrace_ledger *ledger;
    /// Bytes that are in memory at most, two blocks for each pager at least. 0: the whole budget of
    /// the ledger; an error without one.
    uint64_t cap_bytes;
    /// Bytes that come and go together: a power of two from 4096 to 4194304. 0: 262144.
    uint64_t block_bytes;
    /// Bytes that are asked for ahead of who touches blocks in order, at most. 0: 2097152;
    /// TERRACE_AHEAD_OFF: none.
    uint64_t ahead_bytes;
    /// How long pin, evict, flush and close wait for a block, in milliseconds. 0: 30000.
    uint64_t patience_ms;
    /// Threads that answer page faults, 1 to 64, each for a part of the blocks. 0: 1.
    uint32_t pagers;
    /// Blocks that a pager reads at a time, 1 to 16. 0: 16.
    uint32_t depth;
    /// A terrace_method.
    uint32_t method;
} terrace_region_options;

/// Counters of a region, all since it began.
typedef struct terrace_region_stats {
    /// Threads that found a block absent.
    uint64_t faults;
    /// Blocks read from the file.
    uint64_t fills;
    /// Blocks that began as zeros.
    uint64_t zeroed;
    /// Blocks asked for ahead of a fault.
    uint64_t ahead;
    /// Blocks that came back without a transfer.
    uint64_t returned;
    /// Blocks that left memory.
    uint64_t evicted;
    /// Those whose bytes nobody needed.
    uint64_t discarded;
    /// Blocks written to the file.
    uint64_t write_backs;
    /// Bytes read from the file.
    uint64_t read_bytes;
    /// Bytes written to the file.
    uint64_t written_bytes;
    /// Transfers that failed and were tried again or given up.
    uint64_t failures;
    /// Blocks that cannot be read.
    uint64_t poisoned;
    /// Bytes in memory now.
    uint64_t resident_bytes;
    /// Half of the faults were answered faster, in nanoseconds.
    uint64_t fault_p50_ns;
    /// 99 of 100 faults were answered faster, in nanoseconds.
    uint64_t fault_p99_ns;
    /// The slowest fault, in nanoseconds.
    uint64_t fault_max_ns;
    /// What the device said when it refused to take a block, until it took one again; empty
    /// otherwise.
    char latched[TERRACE_STATS_TEXT_BYTES];
} terrace_region_stats;

/// What a heap holds, at one moment.
typedef struct terrace_heap_stats {
    /// Bytes of addresses.
    uint64_t bytes;
    /// Bytes of addresses that the heap uses or keeps for later.
    uint64_t taken_bytes;
    /// Bytes from the first address to the last that was ever taken.
    uint64_t taken_bytes_max;
    /// Bytes of objects below 16 KiB, those that threads keep for their next requests included.
    uint64_t small_bytes;
    /// Bytes of larger objects.
    uint64_t large_bytes;
    /// Bytes of metadata, wherever they are.
    uint64_t metadata_bytes;
    /// Bytes that are taken and that no object uses.
    uint64_t free_bytes;
    /// Pieces of memory that the heap has taken since it was made.
    uint64_t extents;
    /// Those that there was no room or no budget for.
    uint64_t refusals;
    /// Threads that keep freed objects for their next requests.
    uint64_t caches;
} terrace_heap_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The version of the library, as "0.1.0". Never NULL.
const char *terrace_version(void);

/// The usual options of a heap: all zero.
struct terrace_heap_options terrace_heap_options_default(void);

/// Makes a heap in DRAM and gives it to *out: so many bytes of addresses, 8388608 at least, in
/// pages of 4096, which take memory as they are used.
///
/// TERRACE_STATUS_INVALID for options that cannot be; TERRACE_STATUS_NO_ROOM without addresses, and
/// when the process has too many heaps (some 4,000).
///
/// # Safety
/// options are NULL or lead to options, whose name is NULL or a string and whose ledger is NULL or
/// a ledger; out is NULL or leads to room for a pointer.
enum terrace_status terrace_heap_dram(size_t bytes,
                                      const struct terrace_heap_options *options,
                                      struct terrace_heap **out);

/// Makes a heap in the memory of one NUMA node and gives it to *out; otherwise as
/// terrace_heap_dram.
///
/// A node that is not there is TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_heap_dram.
enum terrace_status terrace_heap_node(uint32_t node,
                                      size_t bytes,
                                      const struct terrace_heap_options *options,
                                      struct terrace_heap **out);

/// Makes a heap in a part of a region and gives it to *out. The part begins at the offset and has
/// so many bytes, 8388608 at least, both multiples of 4096; 0 bytes are all to the region's end.
///
/// Nobody else may use the part, and no other heap may. The heap keeps the region: its handle may
/// be closed. What objects hold is written to the region's file in time, but a heap cannot be
/// opened again from it.
///
/// Fails as terrace_heap_dram does. With metadata together the region's cap holds, for each of its
/// pagers, 4 MiB and a block at least.
///
/// # Safety
/// The region is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; otherwise as for terrace_heap_dram.
enum terrace_status terrace_heap_region(const struct terrace_region *region,
                                        size_t offset,
                                        size_t bytes,
                                        const struct terrace_heap_options *options,
                                        struct terrace_heap **out);

/// Ends a heap and frees every object of it at once; NULL is allowed.
///
/// Every pointer that came from the heap is invalid from here on: reading, writing or freeing one
/// is as wrong as after free(), and may reach memory that is somebody else's by then. Containers
/// that have their memory from the heap end before it. No other thread is in a call with it.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// is not used again, nor any pointer that came from it.
void terrace_heap_close(struct terrace_heap *heap);

/// Frees every object at once and keeps the heap. Pointers are invalid as after
/// terrace_heap_close.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; no pointer that came from it is used again, and no other thread is in a call
/// with it.
enum terrace_status terrace_heap_reset(const struct terrace_heap *heap);

/// Gives free memory back: what this thread keeps for its next requests, and what the heap does.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
enum terrace_status terrace_heap_trim(const struct terrace_heap *heap);

/// Makes a ledger over a budget in bytes, and gives it to *out.
///
/// # Safety
/// out is NULL, or leads to room for a pointer.
enum terrace_status terrace_ledger_new(uint64_t budget_bytes, struct terrace_ledger **out);

/// Gives the handle back; NULL is allowed. Regions and heaps that count against the budget go on
/// doing so.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and is not used again.
void terrace_ledger_free(struct terrace_ledger *ledger);

/// The budget in bytes; 0 for NULL.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and was not given back.
uint64_t terrace_ledger_budget(const struct terrace_ledger *ledger);

/// Bytes that regions and heaps hold of the budget; 0 for NULL.
///
/// # Safety
/// As for terrace_ledger_budget.
uint64_t terrace_ledger_granted(const struct terrace_ledger *ledger);

/// An object of so many bytes, of any value. align is a power of two, or 0 for 16. An object of 0
/// bytes counts as one of 1.
///
/// NULL without room or budget, or for an alignment that cannot be; terrace_last_status tells
/// which.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
void *terrace_heap_alloc(const struct terrace_heap *heap, size_t size, size_t align);

/// As terrace_heap_alloc, with bytes that are zero.
///
/// # Safety
/// As for terrace_heap_alloc.
void *terrace_heap_alloc_zeroed(const struct terrace_heap *heap, size_t size, size_t align);

/// As calloc: count times size bytes that are zero, aligned to 16. NULL also where the product
/// overflows.
///
/// # Safety
/// As for terrace_heap_alloc.
void *terrace_heap_calloc(const struct terrace_heap *heap, size_t count, size_t size);

/// Changes the length of an object, where it is if that can be; as many bytes as both lengths have
/// are kept. NULL as the object allocates one. align is that of the object, or 0 for 16.
///
/// NULL without room, or for a pointer that is not this heap's: the object is then as it was.
/// Otherwise the old address is nobody's any more. Size 0 frees nothing: it counts as 1.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and
/// nobody else uses it.
void *terrace_heap_realloc(const struct terrace_heap *heap,
                           void *pointer,
                           size_t size,
                           size_t align);

/// Frees an object, from any thread; NULL is allowed.
///
/// TERRACE_STATUS_INVALID, and nothing done, for an address outside of the heap.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and
/// nobody uses it any more.
enum terrace_status terrace_heap_free(const struct terrace_heap *heap, void *pointer);

/// As terrace_heap_free, for who remembers the size and the alignment that the object was
/// last allocated with.
///
/// # Safety
/// As for terrace_heap_free; the size and the alignment are those of the object.
enum terrace_status terrace_heap_free_sized(const struct terrace_heap *heap,
                                            void *pointer,
                                            size_t size,
                                            size_t align);

/// Bytes that an object really has, all of which may be used; 0 for NULL and for an address outside
/// of the heap.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed.
size_t terrace_heap_usable_size(const struct terrace_heap *heap, void *pointer);

/// Whether an address is one of the heap's, of an object or not.
///
/// # Safety
/// As for terrace_heap_alloc; the address may be any.
bool terrace_heap_contains(const struct terrace_heap *heap, const void *address);

/// Brings a part of a region into memory, keeps it there, and gives the pin to *out.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside; TERRACE_STATUS_IO for a block that
/// cannot be read; TERRACE_STATUS_TIMEOUT when the part takes more than the cap leaves.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or leads to room for a pointer.
enum terrace_status terrace_region_pin(const struct terrace_region *region,
                                       uint64_t offset,
                                       uint64_t len,
                                       struct terrace_pin **out);

/// The first byte that is pinned; NULL for NULL.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and was not given back.
void *terrace_pin_data(const struct terrace_pin *pin);

/// Bytes that are pinned, as many as were asked for; 0 for NULL.
///
/// # Safety
/// As for terrace_pin_data.
size_t terrace_pin_len(const struct terrace_pin *pin);

/// Lets what is pinned leave memory again; NULL is allowed.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and is not used again.
void terrace_region_unpin(struct terrace_pin *pin);

/// Asks for a part ahead of its use, and does not wait.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
enum terrace_status terrace_region_prefetch(const struct terrace_region *region,
                                            uint64_t offset,
                                            uint64_t len);

/// Has a part leave memory, written back where it changed; it comes back when somebody touches it.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside; TERRACE_STATUS_IO for a block that
/// cannot be written, which stays; TERRACE_STATUS_TIMEOUT while blocks are pinned.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_evict(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Makes what was written to a part before this call durable. It stays in memory.
///
/// Fails as terrace_region_evict does, and with TERRACE_STATUS_IO when the device does not sync.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_flush(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Says how a part is used: advice is a terrace_advice.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside and for other advice. Immutable bytes
/// are written back first, which fails as terrace_region_evict does.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_advise(const struct terrace_region *region,
                                          uint64_t offset,
                                          uint64_t len,
                                          uint32_t advice);

/// The usual options of a region: all zero.
struct terrace_region_options terrace_region_options_default(void);

/// Maps a file or a block device that is there, from an offset on (a multiple of 4096), and gives
/// the region to *out. Its bytes are those of the file; what is written to them goes there.
///
/// len 0 is all from the offset to the end of the file. A region may be longer than its file: what
/// is beyond the end reads as zero, and the file grows when it is written. A device must not be in
/// use otherwise.
///
/// TERRACE_STATUS_INVALID for options that cannot be, TERRACE_STATUS_IO where the file cannot be
/// opened, TERRACE_STATUS_UNSUPPORTED where this process has no userfaultfd or io_uring,
/// TERRACE_STATUS_NO_ROOM where memory or budget do not suffice for two blocks of each pager.
///
/// # Safety
/// path is NULL or a string; options are NULL or lead to options, whose name is NULL or a string
/// and whose ledger is NULL or a ledger; out is NULL or leads to room for a pointer.
enum terrace_status terrace_region_open(const char *path,
                                        uint64_t offset,
                                        uint64_t len,
                                        const struct terrace_region_options *options,
                                        struct terrace_region **out);

/// Makes a region of so many bytes, all zero, over a file without a name in a directory, and gives
/// it to *out. The space of the file is free again when the region ends, however the process does.
///
/// Fails as terrace_region_open does.
///
/// # Safety
/// As for terrace_region_open.
enum terrace_status terrace_region_scratch(const char *directory,
                                           uint64_t len,
                                           const struct terrace_region_options *options,
                                           struct terrace_region **out);

/// Gives the handle back; NULL is allowed. The region itself ends with the last of its handle, its
/// heaps and its pins.
///
/// Where this is the last one, and the region is over a file that lasts, what was written is made
/// durable before; a status other than TERRACE_STATUS_OK says that this failed. The handle is gone
/// in any case. Pointers into a region that has ended are of no use any more.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and is not used
/// again.
enum terrace_status terrace_region_close(struct terrace_region *region);

/// The first byte; NULL for NULL. The address holds until the region ends.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
void *terrace_region_data(const struct terrace_region *region);

/// Bytes of the region, rounded up to pages of 4096; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
size_t terrace_region_len(const struct terrace_region *region);

/// Bytes that come and go together; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
size_t terrace_region_block_bytes(const struct terrace_region *region);

/// Changes how many bytes may be in memory; what is too much leaves soon.
///
/// TERRACE_STATUS_INVALID below two blocks for each pager.
///
/// # Safety
/// As for terrace_region_data.
enum terrace_status terrace_region_set_cap(const struct terrace_region *region, uint64_t bytes);

/// Gives the counters of a region to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or leads to room for the counters.
enum terrace_status terrace_region_get_stats(const struct terrace_region *region,
                                             struct terrace_region_stats *out);

/// Gives what a heap holds to *out. Takes statistics of all heaps anew, which takes microseconds.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; out is NULL or leads to room for the numbers.
enum terrace_status terrace_heap_get_stats(const struct terrace_heap *heap,
                                           struct terrace_heap_stats *out);

/// The status of this thread's last failure; TERRACE_STATUS_OK before the first one. Calls that
/// succeed leave it as it is.
enum terrace_status terrace_last_status(void);

/// This thread's last failure in a sentence: what was asked, what went wrong, and what would be
/// right; empty before the first one. Never NULL. The text stays until the next failure on this
/// thread, or the thread's end.
const char *terrace_last_error(void);

/// The name of a status in words, as "no room". Never NULL.
const char *terrace_status_name(uint32_t status);

/// The status of this thread's last failure; TERRACE_STATUS_OK before the first one. Calls that
/// succeed leave it as it is.
enum terrace_status terrace_last_status(void);

/// This thread's last failure in a sentence: what was asked, what went wrong, and what would be
/// right; empty before the first one. Never NULL. The text stays until the next failure on this
/// thread, or the thread's end.
const char *terrace_last_error(void);

/// The name of a status in words, as "no room". Never NULL.
const char *terrace_status_name(uint32_t status);

/// Makes a ledger over a budget in bytes, and gives it to *out.
///
/// # Safety
/// out is NULL, or leads to room for a pointer.
enum terrace_status terrace_ledger_new(uint64_t budget_bytes, struct terrace_ledger **out);

/// Gives the handle back; NULL is allowed. Regions and heaps that count against the budget go on
/// doing so.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and is not used again.
void terrace_ledger_free(struct terrace_ledger *ledger);

/// The budget in bytes; 0 for NULL.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and was not given back.
uint64_t terrace_ledger_budget(const struct terrace_ledger *ledger);

/// Bytes that regions and heaps hold of the budget; 0 for NULL.
///
/// # Safety
/// As for terrace_ledger_budget.
uint64_t terrace_ledger_granted(const struct terrace_ledger *ledger);

/// The usual options of a region: all zero.
struct terrace_region_options terrace_region_options_default(void);

/// Maps a file or a block device that is there, from an offset on (a multiple of 4096), and gives
/// the region to *out. Its bytes are those of the file; what is written to them goes there.
///
/// len 0 is all from the offset to the end of the file. A region may be longer than its file: what
/// is beyond the end reads as zero, and the file grows when it is written. A device must not be in
/// use otherwise.
///
/// TERRACE_STATUS_INVALID for options that cannot be, TERRACE_STATUS_IO where the file cannot be
/// opened, TERRACE_STATUS_UNSUPPORTED where this process has no userfaultfd or io_uring,
/// TERRACE_STATUS_NO_ROOM where memory or budget do not suffice for two blocks of each pager.
///
/// # Safety
/// path is NULL or a string; options are NULL or lead to options, whose name is NULL or a string
/// and whose ledger is NULL or a ledger; out is NULL or leads to room for a pointer.
enum terrace_status terrace_region_open(const char *path,
                                        uint64_t offset,
                                        uint64_t len,
                                        const struct terrace_region_options *options,
                                        struct terrace_region **out);

/// Makes a region of so many bytes, all zero, over a file without a name in a directory, and gives
/// it to *out. The space of the file is free again when the region ends, however the process does.
///
/// Fails as terrace_region_open does.
///
/// # Safety
/// As for terrace_region_open.
enum terrace_status terrace_region_scratch(const char *directory,
                                           uint64_t len,
                                           const struct terrace_region_options *options,
                                           struct terrace_region **out);

/// Gives the handle back; NULL is allowed. The region itself ends with the last of its handle, its
/// heaps and its pins.
///
/// Where this is the last one, and the region is over a file that lasts, what was written is made
/// durable before; a status other than TERRACE_STATUS_OK says that this failed. The handle is gone
/// in any case. Pointers into a region that has ended are of no use any more.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and is not used
/// again.
enum terrace_status terrace_region_close(struct terrace_region *region);

/// The first byte; NULL for NULL. The address holds until the region ends.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
void *terrace_region_data(const struct terrace_region *region);

/// Bytes of the region, rounded up to pages of 4096; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
size_t terrace_region_len(const struct terrace_region *region);

/// Bytes that come and go together; 0 for NULL.
///
/// # Safety
/// As for terrace_region_data.
size_t terrace_region_block_bytes(const struct terrace_region *region);

/// Changes how many bytes may be in memory; what is too much leaves soon.
///
/// TERRACE_STATUS_INVALID below two blocks for each pager.
///
/// # Safety
/// As for terrace_region_data.
enum terrace_status terrace_region_set_cap(const struct terrace_region *region, uint64_t bytes);

/// Brings a part of a region into memory, keeps it there, and gives the pin to *out.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside; TERRACE_STATUS_IO for a block that
/// cannot be read; TERRACE_STATUS_TIMEOUT when the part takes more than the cap leaves.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or leads to room for a pointer.
enum terrace_status terrace_region_pin(const struct terrace_region *region,
                                       uint64_t offset,
                                       uint64_t len,
                                       struct terrace_pin **out);

/// The first byte that is pinned; NULL for NULL.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and was not given back.
void *terrace_pin_data(const struct terrace_pin *pin);

/// Bytes that are pinned, as many as were asked for; 0 for NULL.
///
/// # Safety
/// As for terrace_pin_data.
size_t terrace_pin_len(const struct terrace_pin *pin);

/// Lets what is pinned leave memory again; NULL is allowed.
///
/// # Safety
/// The pin is NULL, or came from terrace_region_pin and is not used again.
void terrace_region_unpin(struct terrace_pin *pin);

/// Asks for a part ahead of its use, and does not wait.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed.
enum terrace_status terrace_region_prefetch(const struct terrace_region *region,
                                            uint64_t offset,
                                            uint64_t len);

/// Has a part leave memory, written back where it changed; it comes back when somebody touches it.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside; TERRACE_STATUS_IO for a block that
/// cannot be written, which stays; TERRACE_STATUS_TIMEOUT while blocks are pinned.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_evict(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Makes what was written to a part before this call durable. It stays in memory.
///
/// Fails as terrace_region_evict does, and with TERRACE_STATUS_IO when the device does not sync.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_flush(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Says how a part is used: advice is a terrace_advice.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside and for other advice. Immutable bytes
/// are written back first, which fails as terrace_region_evict does.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_advise(const struct terrace_region *region,
                                          uint64_t offset,
                                          uint64_t len,
                                          uint32_t advice);

/// The usual options of a heap: all zero.
struct terrace_heap_options terrace_heap_options_default(void);

/// Makes a heap in DRAM and gives it to *out: so many bytes of addresses, 8388608 at least, in
/// pages of 4096, which take memory as they are used.
///
/// TERRACE_STATUS_INVALID for options that cannot be; TERRACE_STATUS_NO_ROOM without addresses, and
/// when the process has too many heaps (some 4,000).
///
/// # Safety
/// options are NULL or lead to options, whose name is NULL or a string and whose ledger is NULL or
/// a ledger; out is NULL or leads to room for a pointer.
enum terrace_status terrace_heap_dram(size_t bytes,
                                      const struct terrace_heap_options *options,
                                      struct terrace_heap **out);

/// Makes a heap in the memory of one NUMA node and gives it to *out; otherwise as
/// terrace_heap_dram.
///
/// A node that is not there is TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_heap_dram.
enum terrace_status terrace_heap_node(uint32_t node,
                                      size_t bytes,
                                      const struct terrace_heap_options *options,
                                      struct terrace_heap **out);

/// Makes a heap in a part of a region and gives it to *out. The part begins at the offset and has
/// so many bytes, 8388608 at least, both multiples of 4096; 0 bytes are all to the region's end.
///
/// Nobody else may use the part, and no other heap may. The heap keeps the region: its handle may
/// be closed. What objects hold is written to the region's file in time, but a heap cannot be
/// opened again from it.
///
/// Fails as terrace_heap_dram does. With metadata together the region's cap holds, for each of its
/// pagers, 4 MiB and a block at least.
///
/// # Safety
/// The region is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; otherwise as for terrace_heap_dram.
enum terrace_status terrace_heap_region(const struct terrace_region *region,
                                        size_t offset,
                                        size_t bytes,
                                        const struct terrace_heap_options *options,
                                        struct terrace_heap **out);

/// Ends a heap and frees every object of it at once; NULL is allowed.
///
/// Every pointer that came from the heap is invalid from here on: reading, writing or freeing one
/// is as wrong as after free(), and may reach memory that is somebody else's by then. Containers
/// that have their memory from the heap end before it. No other thread is in a call with it.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// is not used again, nor any pointer that came from it.
void terrace_heap_close(struct terrace_heap *heap);

/// Frees every object at once and keeps the heap. Pointers are invalid as after
/// terrace_heap_close.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; no pointer that came from it is used again, and no other thread is in a call
/// with it.
enum terrace_status terrace_heap_reset(const struct terrace_heap *heap);

/// Gives free memory back: what this thread keeps for its next requests, and what the heap does.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
enum terrace_status terrace_heap_trim(const struct terrace_heap *heap);

/// An object of so many bytes, of any value. align is a power of two, or 0 for 16. An object of 0
/// bytes counts as one of 1.
///
/// NULL without room or budget, or for an alignment that cannot be; terrace_last_status tells
/// which.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed.
void *terrace_heap_alloc(const struct terrace_heap *heap, size_t size, size_t align);

/// As terrace_heap_alloc, with bytes that are zero.
///
/// # Safety
/// As for terrace_heap_alloc.
void *terrace_heap_alloc_zeroed(const struct terrace_heap *heap, size_t size, size_t align);

/// As calloc: count times size bytes that are zero, aligned to 16. NULL also where the product
/// overflows.
///
/// # Safety
/// As for terrace_heap_alloc.
void *terrace_heap_calloc(const struct terrace_heap *heap, size_t count, size_t size);

/// Changes the length of an object, where it is if that can be; as many bytes as both lengths have
/// are kept. NULL as the object allocates one. align is that of the object, or 0 for 16.
///
/// NULL without room, or for a pointer that is not this heap's: the object is then as it was.
/// Otherwise the old address is nobody's any more. Size 0 frees nothing: it counts as 1.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and
/// nobody else uses it.
void *terrace_heap_realloc(const struct terrace_heap *heap,
                           void *pointer,
                           size_t size,
                           size_t align);

/// Frees an object, from any thread; NULL is allowed.
///
/// TERRACE_STATUS_INVALID, and nothing done, for an address outside of the heap.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed, and
/// nobody uses it any more.
enum terrace_status terrace_heap_free(const struct terrace_heap *heap, void *pointer);

/// As terrace_heap_free, for who remembers the size and the alignment that the object was
/// last allocated with.
///
/// # Safety
/// As for terrace_heap_free; the size and the alignment are those of the object.
enum terrace_status terrace_heap_free_sized(const struct terrace_heap *heap,
                                            void *pointer,
                                            size_t size,
                                            size_t align);

/// Bytes that an object really has, all of which may be used; 0 for NULL and for an address outside
/// of the heap.
///
/// # Safety
/// As for terrace_heap_alloc; the object is NULL, or came from this heap and was not freed.
size_t terrace_heap_usable_size(const struct terrace_heap *heap, void *pointer);

/// Whether an address is one of the heap's, of an object or not.
///
/// # Safety
/// As for terrace_heap_alloc; the address may be any.
bool terrace_heap_contains(const struct terrace_heap *heap, const void *address);

/// Gives the counters of a region to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; out is NULL or leads to room for the counters.
enum terrace_status terrace_region_get_stats(const struct terrace_region *region,
                                             struct terrace_region_stats *out);

/// Gives what a heap holds to *out. Takes statistics of all heaps anew, which takes microseconds.
///
/// # Safety
/// The handle is NULL, or came from terrace_heap_dram, terrace_heap_node or terrace_heap_region and
/// was not closed; out is NULL or leads to room for the numbers.
enum terrace_status terrace_heap_get_stats(const struct terrace_heap *heap,
                                           struct terrace_heap_stats *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */

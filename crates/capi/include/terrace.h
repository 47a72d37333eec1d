/*
 * Terrace: heaps, regions and small objects, memory larger than DRAM, for C and C++.
 *
 * Functions answer a terrace_status, or a pointer that is NULL where they fail. What went wrong is
 * said by terrace_last_status and terrace_last_error, for each thread. NULL as an argument is an
 * error and never read, and a call that fails leaves the place for its answer alone, but where it
 * says otherwise. Nothing unwinds or ends the process.
 *
 * Sizes are bytes. Addresses come from heaps, regions and stores, and end with them.
 */

#ifndef TERRACE_H
#define TERRACE_H

/*
 * Made by cbindgen from the sources of terrace-capi, whose test `header` says how to make it anew.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Value of terrace_region_options.ahead_bytes: nothing is asked for ahead.
#define TERRACE_AHEAD_OFF UINT64_MAX

/// A flag of terrace_heap_options: the heap takes what each request needs and gives back what is
/// freed, instead of taking ever larger pieces and keeping them.
#define TERRACE_HEAP_RETAIN_OFF 1

/// A flag of terrace_heap_options: threads keep nothing of what they free for their next requests.
#define TERRACE_HEAP_THREAD_CACHES_OFF 2

/// Value of terrace_heap_options.decay_ms: freed pages are kept for good.
#define TERRACE_HEAP_KEEP -1

/// The bits of an object's id that say which one of its node it is; the node's 16 are above them.
#define TERRACE_OBJECT_LOCAL_BITS 48

/// A flag of terrace_objects_options: no transparent huge pages are asked for.
#define TERRACE_OBJECTS_HUGE_PAGES_OFF 1

/// A flag of terrace_objects_options: a log that is damaged is opened without what is damaged of
/// it, and without what came after. Without the flag that is TERRACE_STATUS_DAMAGED.
#define TERRACE_OBJECTS_ACCEPT_DAMAGE 2

/// A flag of terrace_objects_options: an id names one object ever. Ids have a generation in the
/// upper 8 of their own bits, and that of an object which was removed is TERRACE_STATUS_NOT_FOUND
/// whatever has its place. It takes a byte for each id.
///
/// Such a store ends: a place serves 255 objects and is retired then, so that a store creates 255
/// times as many objects in its life as it has places. It has as many places as bytes of memory,
/// 4194304 at least and 2^40 at most: 1.07e9 creates with 4 MiB, 2.7e11 with 1 GiB, which last 7.6
/// hours at 10 million a second and 317 days at 10 thousand. After that a create is
/// TERRACE_STATUS_NO_ROOM for good. terrace_objects_stats.retired counts the places.
#define TERRACE_OBJECTS_GENERATIONS 4

/// A flag of terrace_objects_options: a thread of the store's own does in the background what
/// terrace_objects_defragment, terrace_objects_sync and terrace_objects_checkpoint do. Each second
/// it looks whether objects use less than 80 percent of the memory held, changes wait that nobody
/// waits for, or the log has grown by 256 MiB. Operations wait for one group of objects at most.
/// The thread ends with the handle.
#define TERRACE_OBJECTS_KEEPER 8

/// A change waits for the device: it survives the machine.
#define TERRACE_DURABILITY_SYNCED 0

/// A change waits for the kernel: it survives the process, and not the machine.
#define TERRACE_DURABILITY_WRITTEN 1

/// A change waits for nothing, up to 1 MiB of them; terrace_objects_sync waits for the device, and
/// TERRACE_OBJECTS_KEEPER does now and then.
#define TERRACE_DURABILITY_DEFERRED 2

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
    /// Memory, addresses, budget, ids or space on a device are not to be had.
    TERRACE_STATUS_NO_ROOM = 2,
    /// The file, the device or the kernel failed.
    TERRACE_STATUS_IO = 3,
    /// The kernel does not offer what it takes, or not to this process.
    TERRACE_STATUS_UNSUPPORTED = 4,
    /// Blocks stayed pinned, or their transfers did not end, within the region's patience; or an
    /// object was locked for as long as the caller waits.
    TERRACE_STATUS_TIMEOUT = 5,
    /// The library has a fault. It goes on, but what the call should have done may be half done.
    TERRACE_STATUS_PANIC = 6,
    /// No object has the id: it never did, or it was removed.
    TERRACE_STATUS_NOT_FOUND = 7,
    /// The object does not have as many bytes as were given or asked for.
    TERRACE_STATUS_LENGTH = 8,
    /// The object has more bytes than there is room for in the buffer.
    TERRACE_STATUS_BUFFER = 9,
    /// The object may only be read.
    TERRACE_STATUS_READ_ONLY = 10,
    /// The object is pinned, and can be neither removed nor made longer or shorter.
    TERRACE_STATUS_PINNED = 11,
    /// The object is not pinned.
    TERRACE_STATUS_NOT_PINNED = 12,
    /// The lock is not held, or not in the way that this takes.
    TERRACE_STATUS_NOT_LOCKED = 13,
    /// Another holder of the object's read lock waits to write already: one of the two has to give
    /// its lock back.
    TERRACE_STATUS_CONFLICT = 14,
    /// The id was not reserved, or has its object already.
    TERRACE_STATUS_NOT_RESERVED = 15,
    /// A store of objects is not in order.
    TERRACE_STATUS_DAMAGED = 16,
    /// A child process (fork) cannot change a store with a log that its parent opened.
    TERRACE_STATUS_FORKED = 17,
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

/// How an object is locked, for terrace_objects_lock.
typedef enum terrace_lock_mode {
    /// Together with other readers: nobody changes the object.
    TERRACE_LOCK_MODE_READ = 0,
    /// Alone: nobody else reads or changes the object.
    TERRACE_LOCK_MODE_WRITE = 1,
} terrace_lock_mode;

/// How much a message matters.
typedef enum terrace_log_level {
    /// Data may be lost, or something does not go on.
    TERRACE_LOG_LEVEL_ERROR = 1,
    /// Something failed that the library does without, or tries again.
    TERRACE_LOG_LEVEL_WARN = 2,
    /// Something that happens rarely.
    TERRACE_LOG_LEVEL_INFO = 3,
    /// What background work has done.
    TERRACE_LOG_LEVEL_DEBUG = 4,
    /// Steps of it.
    TERRACE_LOG_LEVEL_TRACE = 5,
} terrace_log_level;

/// An allocator whose memory is DRAM, a memory node, or a part of a region.
///
/// All functions may be called from any thread, except terrace_heap_reset and terrace_heap_close
/// beside another call with the same handle.
typedef struct terrace_heap terrace_heap;

/// One budget of DRAM that several regions, heaps and stores of objects count against.
///
/// All functions may be called from any thread, except terrace_ledger_free beside another call
/// with the same handle.
typedef struct terrace_ledger terrace_ledger;

/// A lock of an object, until terrace_objects_unlock.
///
/// Who has it reads and changes the object by the terrace_lock_ functions, which wait for nobody.
/// The terrace_objects_ functions wait for locks, those of the caller too: under a lock for
/// reading, all that change the object; under one for writing, those that read it as well.
///
/// A lock may go from thread to thread, but no two threads use it at once. It keeps the store: the
/// store's handle may be closed.
typedef struct terrace_lock terrace_lock;

/// A store of small objects, found by id, in DRAM, on a memory node, or in a part of a region.
///
/// An object is any number of bytes. Its id is the node that made it, above
/// TERRACE_OBJECT_LOCAL_BITS of its own; no object has the id 0, which programs may use for "none".
/// What one thread does to an object is one step to all others, and what is refused has changed
/// nothing. An operation waits while somebody else's lock keeps it out, as long as the options say;
/// after that it answers TERRACE_STATUS_TIMEOUT.
///
/// All functions may be called from any thread, except terrace_objects_close beside another call
/// with the same handle. In a child process (fork), a store with a log that the parent opened may
/// be read; what changes something is TERRACE_STATUS_FORKED there. A daemon opens its stores after
/// it has forked.
typedef struct terrace_objects terrace_objects;

/// A part of a region that stays in memory, and at its addresses, until terrace_region_unpin.
///
/// What a system call, a device or another process must not find absent is pinned before.
typedef struct terrace_pin terrace_pin;

/// Memory whose blocks live in a file or a device, larger than the DRAM it takes: a block comes
/// into memory when somebody touches it, and leaves when the cap is reached.
///
/// Who touches a block that cannot be read gets SIGBUS. A child process (fork) does not have the
/// memory. Several heaps and stores of objects may use parts of one region.
///
/// All functions may be called from any thread, except terrace_region_close beside another call
/// with the same handle.
typedef struct terrace_region terrace_region;

/// A function of the program's that takes messages: with the context that was given with it, the
/// message's level, which is a terrace_log_level, the module that it comes from, and its text in
/// one line of UTF-8. Both strings are gone when the function returns.
///
/// It is called by any thread, several at once, also by threads of the library's own, and while
/// the library holds locks: it must neither throw nor block for long. Messages of what it calls in
/// the library itself are dropped.
typedef void (*terrace_log_function)(void *context,
                                     uint32_t level,
                                     const char *target,
                                     const char *message);

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
    /// How long pin, evict, flush and close wait for a block, or for the next one of many, in
    /// milliseconds. 0: 30000.
    uint64_t patience_ms;
    /// Threads that answer page faults, 1 to 64, each for a part of the blocks. 0: 1.
    uint32_t pagers;
    /// Blocks that a pager reads at a time, 1 to 16. 0: 16.
    uint32_t depth;
    /// A terrace_method.
    uint32_t method;
} terrace_region_options;

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

/// How a store of objects is set up. Zero, or NULL, is the usual value of every field: begin with
/// terrace_objects_options_default or zeroed memory.
typedef struct terrace_objects_options {
    /// Its name in statistics and in the ledger. NULL: "objects".
    const char *name;
    /// The budget that memory in use counts against: that of what finds objects, and that of the
    /// objects, which a region counts itself. NULL: none.
    const struct terrace_ledger *ledger;
    /// How long an operation waits for an object that somebody else has locked, in milliseconds. 0:
    /// 10000; UINT64_MAX: for ever.
    uint64_t patience_ms;
    /// The node that the store's ids name, up to 65535. It is a number of the program's own, and
    /// none of a memory node.
    uint32_t node;
    /// TERRACE_OBJECTS_HUGE_PAGES_OFF, TERRACE_OBJECTS_ACCEPT_DAMAGE, TERRACE_OBJECTS_GENERATIONS
    /// and TERRACE_OBJECTS_KEEPER, or none of them.
    uint32_t flags;
    /// A directory for a log of all changes, made if it is not there: what it has of before is in
    /// the store again. NULL: none, and the objects are gone with the process.
    const char *log_dir;
    /// A dump whose objects the store is to begin with. NULL: none. Not together with a log.
    const char *dump;
    /// What a change waits for where there is a log: TERRACE_DURABILITY_SYNCED,
    /// TERRACE_DURABILITY_WRITTEN or TERRACE_DURABILITY_DEFERRED.
    uint32_t durability;
    /// 0.
    uint32_t reserved;
} terrace_objects_options;

/// What a store with a log was made of when it was opened; all zero for one without.
typedef struct terrace_objects_recovered {
    /// 1 if there was a dump, 0 otherwise.
    uint64_t dump;
    /// Logs that were read.
    uint64_t logs;
    /// Changes that they had.
    uint64_t changes;
    /// Bytes at the end of the logs that were being written when the process stopped, or were not
    /// on the device when the machine did.
    uint64_t torn_bytes;
    /// What was left out, a text for each: changes that nobody had synced when the machine stopped,
    /// and were found behind others that are lost; and damage, with TERRACE_OBJECTS_ACCEPT_DAMAGE.
    /// The files are kept in the log's directory under names that begin with damaged-.
    uint64_t damages;
} terrace_objects_recovered;

/// Bytes that a call reads: data may be NULL where len is 0.
typedef struct terrace_bytes {
    /// The first byte.
    const void *data;
    /// How many there are.
    size_t len;
} terrace_bytes;

/// Ids of objects that follow one after the other.
typedef struct terrace_id_range {
    /// The first of them.
    uint64_t first;
    /// The last of them.
    uint64_t last;
} terrace_id_range;

/// Where terrace_objects_get_many put an object.
typedef struct terrace_part {
    /// Where in the buffer it begins; 0 without success.
    size_t offset;
    /// How many bytes it has, also where there was no room for them; 0 where it was not found.
    size_t len;
    /// TERRACE_STATUS_OK, or what terrace_objects_get would answer for it.
    enum terrace_status status;
} terrace_part;

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
    /// Bytes of pages that the heap uses or keeps for later.
    uint64_t taken_bytes;
    /// Bytes from the first address to the last page that was ever used.
    uint64_t taken_bytes_max;
    /// Bytes of objects below 16 KiB, those that threads keep for their next requests included.
    uint64_t small_bytes;
    /// Bytes of larger objects.
    uint64_t large_bytes;
    /// Bytes of metadata, wherever they are.
    uint64_t metadata_bytes;
    /// Bytes that the heap has and that no object uses: free pages that still have memory, and
    /// addresses alone.
    uint64_t free_bytes;
    /// Pieces of memory that the heap has taken since it was made.
    uint64_t extents;
    /// Those that there was no room or no budget for.
    uint64_t refusals;
    /// Threads that keep freed objects for their next requests.
    uint64_t caches;
} terrace_heap_stats;

/// What a store of objects holds, at one moment.
typedef struct terrace_objects_stats {
    /// Objects.
    uint64_t objects;
    /// Bytes of them.
    uint64_t object_bytes;
    /// Ids that are reserved and have no object.
    uint64_t reserved;
    /// Places that 255 objects wore out, where ids have generations: no object has them again, and
    /// each keeps 1.5 bytes of the table. See TERRACE_OBJECTS_GENERATIONS.
    uint64_t retired;
    /// Ids of its own that were given out at some time; they are used again.
    uint64_t ids;
    /// Objects that are locked or pinned.
    uint64_t held;
    /// Bytes of the table that finds the objects, the generations of ids included.
    uint64_t table_bytes;
    /// Bytes of memory that objects are in.
    uint64_t used_bytes;
    /// The same with what is kept for later.
    uint64_t held_bytes;
} terrace_objects_stats;

/// What terrace_objects_check found. 64 consecutive ids are a group.
typedef struct terrace_objects_checked {
    /// Objects.
    uint64_t objects;
    /// Bytes of them.
    uint64_t object_bytes;
    /// Groups of objects of one length.
    uint64_t uniform;
    /// Groups of objects of several lengths.
    uint64_t mixed;
    /// Groups of objects that are long, or were pinned.
    uint64_t remote;
} terrace_objects_checked;

/// What terrace_objects_defragment did.
typedef struct terrace_objects_defragmented {
    /// Pieces of memory that were moved.
    uint64_t moved;
    /// terrace_objects_stats.held_bytes before.
    uint64_t held_bytes_before;
    /// And now.
    uint64_t held_bytes_after;
    /// terrace_objects_stats.used_bytes before.
    uint64_t used_bytes_before;
    /// And now.
    uint64_t used_bytes_after;
} terrace_objects_defragmented;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The version of the library, as "0.1.0". Never NULL.
const char *terrace_version(void);

/// The status of this thread's last failure; TERRACE_STATUS_OK before the first one. Calls that
/// succeed leave it as it is.
enum terrace_status terrace_last_status(void);

/// This thread's last failure in a sentence: what was asked, what went wrong, and what would be
/// right; empty before the first one. Never NULL. The text stays until the next failure on this
/// thread, or the thread's end.
const char *terrace_last_error(void);

/// The name of a status in words, as "no room". Never NULL.
const char *terrace_status_name(uint32_t status);

/// Gives every message of the library to a function from now on: what background threads cannot
/// answer to any call, such as a keeper that cannot write, a block that cannot be read, or a store
/// that was closed by the last of its locks and could not be synced. NULL takes the function back.
///
/// When this returns, the function of before is called by no thread any more. Without a function
/// messages go nowhere.
///
/// TERRACE_STATUS_INVALID from within the function, or in a program whose Rust code takes the
/// messages already.
///
/// # Safety
/// The function is NULL, or may be called by any thread with the context, until another is set.
enum terrace_status terrace_set_log(terrace_log_function function, void *context);

/// Makes a ledger over a budget in bytes, and gives it to *out.
///
/// # Safety
/// out is NULL, or leads to room for a pointer.
enum terrace_status terrace_ledger_new(uint64_t budget_bytes, struct terrace_ledger **out);

/// Gives the handle back; NULL is allowed. Whatever counts against the budget goes on doing so.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and is not used again.
void terrace_ledger_free(struct terrace_ledger *ledger);

/// The budget in bytes; 0 for NULL.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and was not given back.
uint64_t terrace_ledger_budget(const struct terrace_ledger *ledger);

/// Bytes that regions, heaps and stores hold of the budget; 0 for NULL.
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
/// use otherwise, and the region has its bytes of a file alone: they are locked (F_OFD_SETLK) until
/// it ends. Several regions may have different pages of one file.
///
/// TERRACE_STATUS_INVALID for options that cannot be, TERRACE_STATUS_IO where the file cannot be
/// opened or another region has bytes of it (the text names the process, where that is known),
/// TERRACE_STATUS_UNSUPPORTED where this process has no userfaultfd,
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
/// heaps, its stores of objects and its pins.
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

/// Whether system calls may be given any address of the region; false for NULL. Where this process
/// may see page faults of its own code alone (users without CAP_SYS_PTRACE, unless the machine is
/// set up otherwise), a system call that is given a block which is not in memory ends with EFAULT:
/// terrace_region_pin comes before it.
///
/// # Safety
/// As for terrace_region_data.
bool terrace_region_serves_system_calls(const struct terrace_region *region);

/// How blocks move to and from the file: "io_uring", or "threads" where the kernel refuses it to
/// this process; "" for NULL. The text is a constant.
///
/// # Safety
/// As for terrace_region_data.
const char *terrace_region_engine(const struct terrace_region *region);

/// Changes how many bytes may be in memory; what is too much leaves soon.
///
/// TERRACE_STATUS_INVALID below two blocks for each pager.
///
/// # Safety
/// As for terrace_region_data.
enum terrace_status terrace_region_set_cap(const struct terrace_region *region, uint64_t bytes);

/// Brings a part of a region into memory, keeps it there, and gives the pin to *out.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside, or is more than the cap;
/// TERRACE_STATUS_IO for a block that cannot be read; TERRACE_STATUS_TIMEOUT when the part takes
/// more than others leave of the cap.
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

/// Asks for a part ahead of its use, and does not wait: for its first blocks, if it is more than
/// the cap.
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
/// cannot be written, which stays while the others leave; TERRACE_STATUS_TIMEOUT while blocks are
/// pinned.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_evict(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Makes what was written to a part before this call durable. It stays in memory.
///
/// Fails as terrace_region_evict does, and with TERRACE_STATUS_IO when the device does not sync:
/// from then on always, since nobody knows what it has lost.
///
/// # Safety
/// As for terrace_region_prefetch.
enum terrace_status terrace_region_flush(const struct terrace_region *region,
                                         uint64_t offset,
                                         uint64_t len);

/// Says how a part is used: advice is a terrace_advice.
///
/// TERRACE_STATUS_INVALID for a part that does not lie inside, for other advice, and for bytes of a
/// heap or a store of objects that would be unused or immutable. Immutable bytes are written back
/// first, which fails as terrace_region_evict does.
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
/// Nobody else may use the part; another heap or store that wants bytes of it is refused. The heap
/// keeps the region: its handle may be closed. What objects hold is written to the region's file
/// in time, but a heap cannot be opened again from it.
///
/// Fails as terrace_heap_dram does, and with TERRACE_STATUS_INVALID for a part of which somebody
/// has bytes. With metadata together the region's cap holds, for each of its pagers, 4 MiB and a
/// block at least.
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

/// The usual options of a store of objects: all zero.
struct terrace_objects_options terrace_objects_options_default(void);

/// Makes an empty store of objects in DRAM and gives it to *out: so many bytes of addresses,
/// 2097152 at least, which take memory as they are used.
///
/// TERRACE_STATUS_INVALID for options that cannot be; TERRACE_STATUS_NO_ROOM without addresses,
/// without room for what a log or a dump has, or without a thread for the keeper;
/// TERRACE_STATUS_DAMAGED when a log or a dump is; TERRACE_STATUS_UNSUPPORTED when it is of another
/// version of the library; TERRACE_STATUS_IO. What a log had is told by
/// terrace_objects_get_recovered.
///
/// # Safety
/// options are NULL or lead to options, whose name, log_dir and dump are NULL or strings and whose
/// ledger is NULL or a ledger; out is NULL or leads to room for a pointer.
enum terrace_status terrace_objects_dram(size_t bytes,
                                         const struct terrace_objects_options *options,
                                         struct terrace_objects **out);

/// Makes an empty store of objects in the memory of one NUMA node and gives it to *out; otherwise
/// as terrace_objects_dram.
///
/// A node that is not there is TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_objects_dram.
enum terrace_status terrace_objects_node(uint32_t node,
                                         size_t bytes,
                                         const struct terrace_objects_options *options,
                                         struct terrace_objects **out);

/// Makes an empty store of objects in a part of a region and gives it to *out. The part begins at
/// the offset, a multiple of 4096, and has so many bytes, 2097152 at least; 0 bytes are all to the
/// region's end. What finds the objects is in DRAM.
///
/// Nobody else may use the part; another store or heap that wants bytes of it is refused. The store
/// keeps the region: its handle may be closed. What objects hold is written to the region's file in
/// time, but a store cannot be opened again from it.
///
/// Fails as terrace_objects_dram does, and with TERRACE_STATUS_INVALID for a part of which somebody
/// has bytes.
///
/// # Safety
/// The region is NULL, or came from terrace_region_open or terrace_region_scratch and was not
/// closed; otherwise as for terrace_objects_dram.
enum terrace_status terrace_objects_region(const struct terrace_region *region,
                                           size_t offset,
                                           size_t bytes,
                                           const struct terrace_objects_options *options,
                                           struct terrace_objects **out);

/// Writes all objects and reserved ids to a file as they are at one moment within the call, while
/// everybody goes on. The file appears under its name once it is whole and on the device.
///
/// TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM when it cannot be written: what was there before
/// stays.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed; the path is NULL or a string.
enum terrace_status terrace_objects_dump(const struct terrace_objects *objects, const char *path);

/// Waits until every change made before is on the device, whatever the store's durability; without
/// a log it does nothing.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed.
enum terrace_status terrace_objects_sync(const struct terrace_objects *objects);

/// Writes everything to the log's directory anew and lets go of the log so far, while everybody
/// goes on. After the log failed, this makes the store take changes again.
///
/// TERRACE_STATUS_INVALID without a log; TERRACE_STATUS_IO or TERRACE_STATUS_NO_ROOM when it cannot
/// be written: what was there before stays.
///
/// # Safety
/// As for terrace_objects_sync.
enum terrace_status terrace_objects_checkpoint(const struct terrace_objects *objects);

/// Gives the handle back; NULL is allowed. The store ends, with every object, as soon as the last
/// of its locks is given back, too. No other thread is in a call with the handle.
///
/// Where the store has a log, every change is made durable before, as by terrace_objects_sync; a
/// status other than TERRACE_STATUS_OK says that this failed, and that changes may be lost that
/// were not synced before. The handle is gone in any case. What locks change later is synced when
/// the last of them is given back, which can tell terrace_set_log alone. In a child process (fork)
/// nothing is written, and that is TERRACE_STATUS_OK.
///
/// Addresses of pinned objects are invalid from here on, whether or not a lock is left.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and is not used again, nor any address that came from it.
enum terrace_status terrace_objects_close(struct terrace_objects *objects);

/// Gives what a store was made of when it was opened to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or leads to room for the numbers.
enum terrace_status terrace_objects_get_recovered(const struct terrace_objects *objects,
                                                  struct terrace_objects_recovered *out);

/// What was left out when a store was opened, in a sentence: number n of
/// terrace_objects_recovered.damages, counted from 0. NULL when there are no so many, or for NULL.
/// The text stays until the handle is closed.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed.
const char *terrace_objects_damage(const struct terrace_objects *objects, size_t n);

/// Makes an object of so many zeros, and gives its id to *out.
///
/// TERRACE_STATUS_NO_ROOM where memory, budget or ids do not suffice; TERRACE_STATUS_INVALID for
/// more than 1 TiB.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or leads to room for an id.
enum terrace_status terrace_objects_create(const struct terrace_objects *objects,
                                           size_t len,
                                           uint64_t *out);

/// Makes an object of these bytes, and gives its id to *out. bytes may be NULL where len is 0.
///
/// Fails as terrace_objects_create does.
///
/// # Safety
/// As for terrace_objects_create; the bytes are NULL, or as many as len says, and do not change
/// during the call.
enum terrace_status terrace_objects_create_with(const struct terrace_objects *objects,
                                                const void *bytes,
                                                size_t len,
                                                uint64_t *out);

/// Makes count objects of some bytes each with consecutive ids, all or none, and gives the first id
/// to *out.
///
/// Fails as terrace_objects_create does; no objects at all are TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_objects_create; contents are NULL or lead to count structures, each of which has
/// as many bytes as it says. Nothing of that changes during the call.
enum terrace_status terrace_objects_create_consecutive(const struct terrace_objects *objects,
                                                       const struct terrace_bytes *contents,
                                                       size_t count,
                                                       uint64_t *out);

/// Reserves an id without an object, and gives it to *out: terrace_objects_create_reserved gives it
/// one, and terrace_objects_release gives it back.
///
/// TERRACE_STATUS_NO_ROOM where ids, or the budget for what finds objects, do not suffice.
///
/// # Safety
/// As for terrace_objects_create.
enum terrace_status terrace_objects_reserve(const struct terrace_objects *objects, uint64_t *out);

/// Reserves so many consecutive ids, and gives the first to *out; otherwise as
/// terrace_objects_reserve.
///
/// No ids at all are TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_objects_create.
enum terrace_status terrace_objects_reserve_consecutive(const struct terrace_objects *objects,
                                                        size_t count,
                                                        uint64_t *out);

/// Gives a reserved id back.
///
/// TERRACE_STATUS_NOT_RESERVED for an id that is not, or has its object.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed.
enum terrace_status terrace_objects_release(const struct terrace_objects *objects, uint64_t object);

/// Makes an object of these bytes with a reserved id, or with an id of another node that no object
/// has here: that is how objects come from elsewhere. bytes may be NULL where len is 0.
///
/// TERRACE_STATUS_NOT_RESERVED for any other id; otherwise fails as terrace_objects_create does.
///
/// # Safety
/// As for terrace_objects_release; the bytes are NULL, or as many as len says, and do not change
/// during the call.
enum terrace_status terrace_objects_create_reserved(const struct terrace_objects *objects,
                                                    uint64_t object,
                                                    const void *bytes,
                                                    size_t len);

/// Removes an object. Its id may name another object at once.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_PINNED, TERRACE_STATUS_READ_ONLY;
/// TERRACE_STATUS_TIMEOUT while somebody has it locked.
///
/// # Safety
/// As for terrace_objects_release.
enum terrace_status terrace_objects_remove(const struct terrace_objects *objects, uint64_t object);

/// Whether an object has this id. Nobody waits. False for a store that is NULL.
///
/// # Safety
/// As for terrace_objects_release.
bool terrace_objects_exists(const struct terrace_objects *objects, uint64_t object);

/// Gives the ids of objects to ids, those behind the id after, in order and at most max, and how
/// many they are to *count: fewer than max when there are no others. Begin with 0, which no object
/// has, and go on with the last.
///
/// They are those that were there when somebody looked: objects that come and go meanwhile may be
/// among them or not.
///
/// # Safety
/// As for terrace_objects_release; ids are NULL or lead to room for max ids, count is NULL or leads
/// to room for a number, and nobody else uses either.
enum terrace_status terrace_objects_ids(const struct terrace_objects *objects,
                                        uint64_t after,
                                        uint64_t *ids,
                                        size_t max,
                                        size_t *count);

/// Gives the ids of objects to ranges, as few as they are in order, as terrace_objects_ids gives
/// them one by one. Go on with the last of the last range.
///
/// # Safety
/// As for terrace_objects_ids; ranges are NULL or lead to room for max ranges.
enum terrace_status terrace_objects_id_ranges(const struct terrace_objects *objects,
                                              uint64_t after,
                                              struct terrace_id_range *ranges,
                                              size_t max,
                                              size_t *count);

/// Copies an object to a buffer that has so much room, and gives its length to *len, which may be
/// NULL. It waits while somebody has locked the object for writing.
///
/// TERRACE_STATUS_BUFFER when the object has more bytes than there is room for: nothing is copied,
/// and *len is its length nevertheless. The buffer may be NULL without room.
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; the buffer is NULL or has so much room, len is NULL
/// or leads to room for a length, and nobody else uses either.
enum terrace_status terrace_objects_get(const struct terrace_objects *objects,
                                        uint64_t object,
                                        void *buffer,
                                        size_t room,
                                        size_t *len);

/// Copies the bytes of an object from the offset on, as many as len says; otherwise as
/// terrace_objects_get.
///
/// TERRACE_STATUS_LENGTH when the object ends before.
///
/// # Safety
/// As for terrace_objects_get; the buffer is NULL or has room for so many bytes.
enum terrace_status terrace_objects_read_at(const struct terrace_objects *objects,
                                            uint64_t object,
                                            size_t offset,
                                            void *buffer,
                                            size_t len);

/// Replaces the bytes of an object, which are as many as those given. It waits while somebody has
/// locked the object.
///
/// TERRACE_STATUS_LENGTH when the object has more or fewer; TERRACE_STATUS_NOT_FOUND,
/// TERRACE_STATUS_READ_ONLY, TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; the bytes are NULL, or as many as len says, do not
/// change during the call, and are not those of the object itself.
enum terrace_status terrace_objects_put(const struct terrace_objects *objects,
                                        uint64_t object,
                                        const void *bytes,
                                        size_t len);

/// Replaces bytes of an object from the offset on; otherwise as terrace_objects_put.
///
/// TERRACE_STATUS_LENGTH when the object ends before the last of them.
///
/// # Safety
/// As for terrace_objects_put.
enum terrace_status terrace_objects_write_at(const struct terrace_objects *objects,
                                             uint64_t object,
                                             size_t offset,
                                             const void *bytes,
                                             size_t len);

/// Gives an object other bytes, more or fewer, in one step. It waits while somebody has locked the
/// object. bytes may be NULL where len is 0.
///
/// TERRACE_STATUS_PINNED when the length of a pinned object would change; TERRACE_STATUS_NO_ROOM;
/// TERRACE_STATUS_INVALID for more than 1 TiB; TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_READ_ONLY,
/// TERRACE_STATUS_TIMEOUT.
///
/// # Safety
/// As for terrace_objects_put.
enum terrace_status terrace_objects_replace(const struct terrace_objects *objects,
                                            uint64_t object,
                                            const void *bytes,
                                            size_t len);

/// Changes the length of an object. What fits of it is kept, what comes to it is zero.
///
/// Waits and fails as terrace_objects_replace does.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed.
enum terrace_status terrace_objects_resize(const struct terrace_objects *objects,
                                           uint64_t object,
                                           size_t len);

/// Gives the length of an object to *len. Nobody waits.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; len is NULL or leads to room for a length.
enum terrace_status terrace_objects_size(const struct terrace_objects *objects,
                                         uint64_t object,
                                         size_t *len);

/// Gives to *out whether an object may only be read. Nobody waits.
///
/// TERRACE_STATUS_NOT_FOUND.
///
/// # Safety
/// As for terrace_objects_resize; out is NULL or leads to room for a bool.
enum terrace_status terrace_objects_is_read_only(const struct terrace_objects *objects,
                                                 uint64_t object,
                                                 bool *out);

/// Says whether an object may only be read from now on: it is then neither written to, nor resized,
/// nor removed, until somebody says that it may be. It waits while somebody has locked the object.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT, TERRACE_STATUS_NO_ROOM.
///
/// # Safety
/// As for terrace_objects_resize.
enum terrace_status terrace_objects_set_read_only(const struct terrace_objects *objects,
                                                  uint64_t object,
                                                  bool read_only);

/// Keeps an object where it is, and gives its address to *data and its length to *len, which may be
/// NULL. It is neither removed nor resized, and does not move, until terrace_objects_unpin was
/// called as often. Operations on it go on as on others, and nobody waits.
///
/// The bytes may be read and written there. Operations of other threads change them meanwhile
/// unless the object is locked, and who reads the object while they are written may see some of
/// each. The address is a multiple of 64.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_NO_ROOM.
///
/// # Safety
/// As for terrace_objects_resize; data is NULL or leads to room for a pointer, len is NULL or leads
/// to room for a length.
enum terrace_status terrace_objects_pin(const struct terrace_objects *objects,
                                        uint64_t object,
                                        void **data,
                                        size_t *len);

/// Gives a pin back, on any thread.
///
/// TERRACE_STATUS_NOT_PINNED when the object has none.
///
/// # Safety
/// As for terrace_objects_resize; whoever gives the last pin back has no use for the address any
/// more.
enum terrace_status terrace_objects_unpin(const struct terrace_objects *objects, uint64_t object);

/// Locks an object and gives the lock to *out: mode is a terrace_lock_mode. It waits for so many
/// milliseconds while others keep it out: with 0 it tries once, with UINT64_MAX it waits for ever,
/// also for a lock that the caller has.
///
/// TERRACE_STATUS_NOT_FOUND, TERRACE_STATUS_TIMEOUT; TERRACE_STATUS_INVALID for another mode.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or leads to room for a pointer.
enum terrace_status terrace_objects_lock(const struct terrace_objects *objects,
                                         uint64_t object,
                                         uint32_t mode,
                                         uint64_t timeout_ms,
                                         struct terrace_lock **out);

/// Gives a lock back; NULL is allowed.
///
/// # Safety
/// The lock is NULL, or came from terrace_objects_lock and is not used again.
void terrace_objects_unlock(struct terrace_lock *lock);

/// The id of the object; 0 for NULL.
///
/// # Safety
/// The lock is NULL, or came from terrace_objects_lock and was not given back, and no other thread
/// uses it.
uint64_t terrace_lock_object(const struct terrace_lock *lock);

/// Turns a lock for reading into one for writing as soon as it is the only one, without a gap in
/// which somebody else could write. It waits as terrace_objects_lock does.
///
/// The lock for reading is kept when that fails: TERRACE_STATUS_CONFLICT when another reader waits
/// to do so already, TERRACE_STATUS_TIMEOUT, TERRACE_STATUS_NOT_LOCKED for one that is no lock for
/// reading.
///
/// # Safety
/// As for terrace_lock_object.
enum terrace_status terrace_lock_upgrade(struct terrace_lock *lock, uint64_t timeout_ms);

/// Turns a lock for writing into one for reading without a gap.
///
/// TERRACE_STATUS_NOT_LOCKED for one that is no lock for writing.
///
/// # Safety
/// As for terrace_lock_object.
enum terrace_status terrace_lock_downgrade(struct terrace_lock *lock);

/// Copies the locked object as terrace_objects_get does, without waiting.
///
/// TERRACE_STATUS_BUFFER; TERRACE_STATUS_NOT_LOCKED after terrace_lock_remove.
///
/// # Safety
/// As for terrace_lock_object; the buffer is NULL or has so much room, len is NULL or leads to room
/// for a length, and nobody else uses either.
enum terrace_status terrace_lock_get(const struct terrace_lock *lock,
                                     void *buffer,
                                     size_t room,
                                     size_t *len);

/// Replaces the bytes of the object as terrace_objects_put does, without waiting.
///
/// TERRACE_STATUS_NOT_LOCKED for one that is no lock for writing; TERRACE_STATUS_LENGTH,
/// TERRACE_STATUS_READ_ONLY.
///
/// # Safety
/// As for terrace_lock_object; the bytes are NULL, or as many as len says, do not change during the
/// call, and are not those of the object itself.
enum terrace_status terrace_lock_put(struct terrace_lock *lock, const void *bytes, size_t len);

/// Gives the object other bytes as terrace_objects_replace does, without waiting.
///
/// TERRACE_STATUS_NOT_LOCKED for one that is no lock for writing; TERRACE_STATUS_NO_ROOM,
/// TERRACE_STATUS_PINNED, TERRACE_STATUS_READ_ONLY, TERRACE_STATUS_INVALID.
///
/// # Safety
/// As for terrace_lock_put.
enum terrace_status terrace_lock_replace(struct terrace_lock *lock, const void *bytes, size_t len);

/// Changes the length of the object as terrace_objects_resize does, without waiting.
///
/// Fails as terrace_lock_replace does.
///
/// # Safety
/// As for terrace_lock_object.
enum terrace_status terrace_lock_resize(struct terrace_lock *lock, size_t len);

/// Removes the object, and what is held of it. The lock is given back by terrace_objects_unlock all
/// the same, and is of no other use.
///
/// TERRACE_STATUS_NOT_LOCKED for one that is no lock for writing; TERRACE_STATUS_PINNED,
/// TERRACE_STATUS_READ_ONLY.
///
/// # Safety
/// As for terrace_lock_object.
enum terrace_status terrace_lock_remove(struct terrace_lock *lock);

/// Copies objects to a buffer that has so much room, one after the other, puts where each of them
/// is to parts, and gives the bytes of all that were found to *needed, which may be NULL. Each is
/// read by itself, as terrace_objects_get does it, but memory is asked for ahead: a read does not
/// wait for the one before.
///
/// TERRACE_STATUS_BUFFER when there was no room for some of them, which have this status, too; the
/// others are there, and a buffer of *needed bytes has room for all. Otherwise the status of the
/// first that could not be read. parts and *needed are written in each of these cases, but not with
/// TERRACE_STATUS_INVALID.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids are NULL or count ids, the buffer is NULL or has
/// so much room, parts are NULL or have room for count of them, needed is NULL or leads to room for
/// a number, and nobody else uses any of them meanwhile.
enum terrace_status terrace_objects_get_many(const struct terrace_objects *objects,
                                             const uint64_t *ids,
                                             size_t count,
                                             void *buffer,
                                             size_t room,
                                             struct terrace_part *parts,
                                             size_t *needed);

/// Replaces the bytes of count objects, each as terrace_objects_put does, and puts what became of
/// each to statuses, which may be NULL.
///
/// Answers the status of the first that failed; the others are done all the same. With
/// TERRACE_STATUS_INVALID none is, and statuses are left alone.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids are NULL or count ids, contents are NULL or count
/// structures, each of which has as many bytes as it says, statuses are NULL or have room for count
/// of them. Nobody changes or uses any of that meanwhile, and the bytes are none of objects.
enum terrace_status terrace_objects_put_many(const struct terrace_objects *objects,
                                             const uint64_t *ids,
                                             const struct terrace_bytes *contents,
                                             size_t count,
                                             enum terrace_status *statuses);

/// Removes count objects, each as terrace_objects_remove does, and puts what became of each to
/// statuses, which may be NULL.
///
/// Answers as terrace_objects_put_many does.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; ids are NULL or count ids, statuses are NULL or have
/// room for count of them. Nobody changes or uses any of that meanwhile.
enum terrace_status terrace_objects_remove_many(const struct terrace_objects *objects,
                                                const uint64_t *ids,
                                                size_t count,
                                                enum terrace_status *statuses);

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

/// Gives what a store of objects holds to *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or leads to room for the numbers.
enum terrace_status terrace_objects_get_stats(const struct terrace_objects *objects,
                                              struct terrace_objects_stats *out);

/// Walks all of a store, and gives what it found to *out, which may be NULL: that every object lies
/// in memory of its own, and that the counts are right. All other calls wait until it has ended,
/// some 10 ms for a million objects.
///
/// TERRACE_STATUS_DAMAGED with the first thing that is not as it must be.
///
/// # Safety
/// As for terrace_objects_get_stats.
enum terrace_status terrace_objects_check(const struct terrace_objects *objects,
                                          struct terrace_objects_checked *out);

/// Gives back memory of which objects use little, while everybody goes on, and what it did to *out,
/// which may be NULL. Pinned objects stay where they are. One call at a time: a second one waits.
///
/// # Safety
/// As for terrace_objects_get_stats.
enum terrace_status terrace_objects_defragment(const struct terrace_objects *objects,
                                               struct terrace_objects_defragmented *out);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TERRACE_H */

/*
 * A store of small objects, in DRAM and in a file, from C.
 *
 *     objects [DIRECTORY]    directory for a scratch file
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "terrace.h"

#define MIB ((size_t)1 << 20)
#define COUNT 20000
#define BATCH 100
#define TURNS 20000

static void must(terrace_status status, const char *what) {
    if (status != TERRACE_STATUS_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, terrace_status_name(status), terrace_last_error());
        exit(1);
    }
}

static void expect(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "it does not hold that %s\n", what);
        exit(1);
    }
}

/* Every byte of an object is its number; most objects are equally long. */
static size_t size_of(size_t number) {
    return number % 10 == 0 ? 8 + number * 37 % 3000 : 48;
}

static bool is(const terrace_objects *store, uint64_t id, size_t number) {
    unsigned char bytes[4096];
    size_t len;
    must(terrace_objects_get(store, id, bytes, sizeof bytes, &len), "get");
    bool right = len == size_of(number);
    for (size_t at = 0; at < len; at++) {
        right = right && bytes[at] == (number & 0xff);
    }
    return right;
}

static void one_by_one(terrace_objects *store) {
    uint64_t id;
    char text[32];
    size_t len;
    must(terrace_objects_create(store, 16, &id), "create");
    must(terrace_objects_get(store, id, text, sizeof text, &len), "get");
    expect(id != 0 && len == 16 && memcmp(text, (char[16]){0}, 16) == 0, "it is zeros");
    must(terrace_objects_put(store, id, "0123456789abcde", 16), "put");
    must(terrace_objects_write_at(store, id, 10, "ABC", 3), "write at");
    must(terrace_objects_read_at(store, id, 8, text, 8), "read at");
    expect(strcmp(text, "89ABCde") == 0, "a part of it was written");
    must(terrace_objects_resize(store, id, 4), "resize");
    must(terrace_objects_resize(store, id, 6), "resize");
    must(terrace_objects_get(store, id, text, sizeof text, NULL), "get");
    expect(memcmp(text, "0123\0", 6) == 0, "what comes to it is zero");
    must(terrace_objects_replace(store, id, "longer than it was", 19), "replace");
    must(terrace_objects_size(store, id, &len), "size");
    expect(len == 19 && terrace_objects_exists(store, id), "it is longer");

    bool read_only = true;
    must(terrace_objects_is_read_only(store, id, &read_only), "is read-only");
    expect(!read_only, "it may be written to");
    must(terrace_objects_set_read_only(store, id, true), "set read-only");
    expect(terrace_objects_put(store, id, text, 19) == TERRACE_STATUS_READ_ONLY, "it may not");
    must(terrace_objects_is_read_only(store, id, &read_only), "is read-only");
    expect(read_only, "it says so");
    must(terrace_objects_set_read_only(store, id, false), "set read-only");
    must(terrace_objects_remove(store, id), "remove");
    expect(!terrace_objects_exists(store, id), "it is gone");

    /* Objects may be empty. */
    must(terrace_objects_create_with(store, NULL, 0, &id), "create with");
    must(terrace_objects_get(store, id, NULL, 0, &len), "get");
    expect(len == 0 && terrace_objects_exists(store, id), "it has no bytes");
    must(terrace_objects_remove(store, id), "remove");
}

static void reserved_and_consecutive(terrace_objects *store) {
    uint64_t id, first, other = (uint64_t)7 << TERRACE_OBJECT_LOCAL_BITS | 5;
    terrace_objects_stats stats;
    char text[8];
    must(terrace_objects_reserve(store, &id), "reserve");
    must(terrace_objects_get_stats(store, &stats), "stats");
    expect(!terrace_objects_exists(store, id) && stats.reserved == 1, "the id has no object");
    must(terrace_objects_create_reserved(store, id, "mine", 5), "create reserved");
    must(terrace_objects_create_reserved(store, other, "theirs", 7), "another node's");
    must(terrace_objects_get(store, other, text, sizeof text, NULL), "get");
    expect(strcmp(text, "theirs") == 0, "objects come from elsewhere");
    must(terrace_objects_remove(store, id), "remove");
    must(terrace_objects_remove(store, other), "remove");
    must(terrace_objects_reserve_consecutive(store, 10, &first), "reserve consecutive");
    for (uint64_t n = 0; n < 10; n++) {
        must(terrace_objects_release(store, first + n), "release");
    }

    terrace_bytes contents[3] = {{"one", 4}, {NULL, 0}, {"three", 6}};
    must(terrace_objects_create_consecutive(store, contents, 3, &first), "create consecutive");
    must(terrace_objects_get(store, first + 2, text, sizeof text, NULL), "get");
    expect(strcmp(text, "three") == 0, "consecutive objects have consecutive ids");
    for (uint64_t n = 0; n < 3; n++) {
        must(terrace_objects_remove(store, first + n), "remove");
    }
    must(terrace_objects_get_stats(store, &stats), "stats");
    expect(stats.objects == 0 && stats.reserved == 0 && stats.held == 0, "nothing is left");
}

/* Fills the store; the number of an object is that of its id. */
static uint64_t *fill(terrace_objects *store) {
    static uint64_t ids[COUNT];
    unsigned char bytes[4096];
    for (size_t i = 0; i < COUNT; i++) {
        memset(bytes, (int)(i & 0xff), size_of(i));
        must(terrace_objects_create_with(store, bytes, size_of(i), &ids[i]), "create with");
    }
    return ids;
}

static void batches(terrace_objects *store, const uint64_t *ids) {
    static unsigned char bytes[BATCH * 4096];
    terrace_part parts[BATCH];
    size_t needed, again, sum = 0;
    terrace_status all = terrace_objects_get_many(store, ids, BATCH, NULL, 0, parts, &needed);
    expect(all == TERRACE_STATUS_BUFFER && needed <= sizeof bytes, "it says what they take");
    must(terrace_objects_get_many(store, ids, BATCH, bytes, needed, parts, &again), "get many");
    for (size_t i = 0; i < BATCH; i++) {
        const terrace_part *part = &parts[i];
        expect(part->status == TERRACE_STATUS_OK && part->offset == sum, "each is there");
        expect(part->len == size_of(i) && bytes[part->offset] == i, "each is what it was");
        sum += part->len;
    }
    expect(sum == needed && again == needed, "they take no more");

    /* A missing object does not affect the others, nor does one that does not fit. */
    uint64_t some[4] = {ids[1], 0, ids[10], ids[2]};
    all = terrace_objects_get_many(store, some, 4, bytes, 2 * 48, parts, &needed);
    expect(all == TERRACE_STATUS_BUFFER && needed == 2 * 48 + size_of(10), "one has no room");
    expect(parts[0].status == TERRACE_STATUS_OK && parts[1].status == TERRACE_STATUS_NOT_FOUND &&
               parts[2].status == TERRACE_STATUS_BUFFER && parts[2].len == size_of(10) &&
               parts[3].status == TERRACE_STATUS_OK && parts[3].offset == 48 && bytes[48] == 2,
           "the others are there");
    all = terrace_objects_get_many(store, some, 2, bytes, sizeof bytes, parts, NULL);
    expect(all == TERRACE_STATUS_NOT_FOUND, "the first that failed is answered");
    must(terrace_objects_get_many(store, NULL, 0, NULL, 0, NULL, &needed), "nothing");
    expect(needed == 0, "nothing takes nothing");

    terrace_bytes contents[BATCH];
    terrace_status statuses[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        memset(bytes + i * 4096, (int)i + 1, size_of(i));
        contents[i] = (terrace_bytes){bytes + i * 4096, size_of(i)};
    }
    must(terrace_objects_put_many(store, ids, contents, BATCH, NULL), "put many");
    contents[50].len++;
    memset(bytes, 0, BATCH * 4096);
    all = terrace_objects_put_many(store, ids, contents, BATCH, statuses);
    expect(all == TERRACE_STATUS_LENGTH && statuses[50] == TERRACE_STATUS_LENGTH &&
               statuses[49] == TERRACE_STATUS_OK && statuses[51] == TERRACE_STATUS_OK,
           "one does not fit");
    unsigned char byte;
    must(terrace_objects_read_at(store, ids[50], 0, &byte, 1), "read at");
    expect(byte == 51, "it keeps what it had");
    must(terrace_objects_remove_many(store, ids, BATCH, statuses), "remove many");
    all = terrace_objects_remove_many(store, ids + BATCH - 1, 2, statuses);
    expect(all == TERRACE_STATUS_NOT_FOUND && statuses[0] == TERRACE_STATUS_NOT_FOUND &&
               statuses[1] == TERRACE_STATUS_OK,
           "what is there is removed");
}

/* Reads all ids in order, in pieces, and from some id on. */
static void enumerate(terrace_objects *store, size_t wanted) {
    uint64_t ids[777], last = 0;
    terrace_id_range ranges[3];
    size_t count, all = 0;
    do {
        must(terrace_objects_ids(store, last, ids, 777, &count), "ids");
        for (size_t i = 0; i < count; i++) {
            expect(ids[i] > last && terrace_objects_exists(store, ids[i]), "ids are in order");
            last = ids[i];
        }
        all += count;
    } while (count == 777);
    expect(all == wanted, "each object has its id");
    must(terrace_objects_ids(store, UINT64_MAX, ids, 777, &count), "ids");
    expect(count == 0, "there are none beyond the last");

    all = last = 0;
    do {
        must(terrace_objects_id_ranges(store, last, ranges, 3, &count), "ranges");
        for (size_t i = 0; i < count; i++) {
            const terrace_id_range *range = &ranges[i];
            expect(range->first > last && range->last >= range->first, "ranges are in order");
            expect(i == 0 || range->first > last + 1, "ranges are as few as they can be");
            last = range->last;
            all += last - range->first + 1;
        }
    } while (count == 3);
    expect(all == wanted, "each object is in a range");

    /* Removing one in the middle splits the range in two. */
    terrace_bytes contents[5] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    uint64_t first;
    must(terrace_objects_create_consecutive(store, contents, 5, &first), "create consecutive");
    must(terrace_objects_remove(store, first + 2), "remove");
    must(terrace_objects_id_ranges(store, first, ranges, 2, &count), "ranges");
    expect(count > 1 && ranges[0].first == first + 1 && ranges[0].last == first + 1 &&
               ranges[1].first == first + 3 && ranges[1].last >= first + 4,
           "one is missing");
    must(terrace_objects_id_ranges(store, first, NULL, 0, &count), "no ranges");
    expect(count == 0, "none were asked for");
    for (uint64_t id = first; id < first + 5; id++) {
        expect(terrace_objects_remove(store, id) ==
                   (id == first + 2 ? TERRACE_STATUS_NOT_FOUND : TERRACE_STATUS_OK),
               "each goes once");
    }
}

static void locks(terrace_objects *store) {
    terrace_lock *lock, *other;
    uint64_t id;
    char text[16];
    size_t len;
    must(terrace_objects_create(store, 1, &id), "create");
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &lock), "lock");
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &other), "lock");
    expect(terrace_lock_upgrade(lock, 1) == TERRACE_STATUS_TIMEOUT, "there is another reader");
    expect(terrace_lock_put(lock, "", 1) == TERRACE_STATUS_NOT_LOCKED, "readers do not write");
    terrace_objects_unlock(other);
    must(terrace_lock_upgrade(lock, UINT64_MAX), "upgrade");
    must(terrace_lock_replace(lock, "one", 4), "replace");
    must(terrace_lock_put(lock, "two", 4), "put");
    must(terrace_lock_resize(lock, 8), "resize");
    must(terrace_lock_get(lock, text, sizeof text, &len), "get");
    expect(len == 8 && strcmp(text, "two") == 0, "the holder reads what it wrote");
    expect(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 1, &other) ==
               TERRACE_STATUS_TIMEOUT,
           "the lock is free");
    must(terrace_lock_downgrade(lock), "downgrade");
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &other), "lock");
    terrace_objects_unlock(other);
    must(terrace_lock_upgrade(lock, 0), "upgrade");
    expect(terrace_lock_object(lock) == id, "a lock knows its object");
    must(terrace_lock_remove(lock), "remove");
    expect(!terrace_objects_exists(store, id), "it is gone");
    expect(terrace_lock_get(lock, text, sizeof text, &len) == TERRACE_STATUS_NOT_LOCKED &&
               terrace_lock_downgrade(lock) == TERRACE_STATUS_NOT_LOCKED &&
               terrace_lock_upgrade(lock, 0) == TERRACE_STATUS_NOT_LOCKED &&
               terrace_lock_remove(lock) == TERRACE_STATUS_NOT_LOCKED,
           "and so is the lock");
    terrace_objects_unlock(lock);
}

/* Upgrades a read lock, and releases it. */
struct reader {
    terrace_lock *lock;
    terrace_status upgraded;
};

static void *upgrade(void *of) {
    struct reader *reader = of;
    reader->upgraded = terrace_lock_upgrade(reader->lock, UINT64_MAX);
    terrace_objects_unlock(reader->lock);
    return NULL;
}

/* Two upgrades would deadlock: the second fails, and the first continues. */
static void two_upgrades(terrace_objects *store) {
    uint64_t id;
    struct reader here, there;
    pthread_t thread;
    must(terrace_objects_create(store, 1, &id), "create");
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &here.lock), "lock");
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &there.lock), "lock");
    expect(pthread_create(&thread, NULL, upgrade, &there) == 0, "there is a thread");
    upgrade(&here);
    expect(pthread_join(thread, NULL) == 0, "it ends");
    expect((here.upgraded == TERRACE_STATUS_OK && there.upgraded == TERRACE_STATUS_CONFLICT) ||
               (here.upgraded == TERRACE_STATUS_CONFLICT && there.upgraded == TERRACE_STATUS_OK),
           "one of them writes");
    must(terrace_objects_remove(store, id), "remove");
}

/* A thread that changes a counter under its lock, and objects of its own. */
struct worker {
    terrace_objects *store;
    uint64_t counter;
    unsigned char stamp;
    size_t mine;
};

static void *work(void *of) {
    struct worker *worker = of;
    for (int turn = 0; turn < TURNS; turn++) {
        terrace_lock *lock;
        uint64_t value, id;
        must(terrace_objects_lock(worker->store, worker->counter, TERRACE_LOCK_MODE_WRITE,
                                  UINT64_MAX, &lock),
             "lock");
        must(terrace_lock_get(lock, &value, sizeof value, NULL), "get");
        value++;
        must(terrace_lock_put(lock, &value, sizeof value), "put");
        terrace_objects_unlock(lock);

        unsigned char bytes[40];
        memset(bytes, worker->stamp, sizeof bytes);
        must(terrace_objects_create_with(worker->store, bytes, sizeof bytes, &id), "create with");
        if (turn % 4 == 0) {
            worker->mine++;
        } else {
            must(terrace_objects_remove(worker->store, id), "remove");
        }
    }
    return NULL;
}

static void two_threads(terrace_objects *store) {
    uint64_t counter, value = 0;
    terrace_objects_stats before, after;
    must(terrace_objects_create(store, sizeof value, &counter), "create");
    must(terrace_objects_get_stats(store, &before), "stats");
    struct worker workers[2] = {{store, counter, 1, 0}, {store, counter, 2, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        expect(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "there is a thread");
    }
    /* Objects are moved during the work. */
    for (int i = 0; i < 20; i++) {
        must(terrace_objects_defragment(store, NULL), "defragment");
    }
    for (int i = 0; i < 2; i++) {
        expect(pthread_join(threads[i], NULL) == 0, "it ends");
    }
    must(terrace_objects_get(store, counter, &value, sizeof value, NULL), "get");
    expect(value == 2 * TURNS, "no step is lost");
    must(terrace_objects_get_stats(store, &after), "stats");
    expect(after.objects == before.objects + workers[0].mine + workers[1].mine, "all are there");
    expect(after.held == 0, "no object is held");
}

/* Removes most objects and frees their memory, with one pinned among them. */
static void defragmented(terrace_objects *store, const uint64_t *ids) {
    const size_t pinned = COUNT / 2 + 1;
    void *data, *again;
    size_t len;
    must(terrace_objects_pin(store, ids[pinned], &data, &len), "pin");
    must(terrace_objects_pin(store, ids[pinned], &again, NULL), "pin");
    expect(data == again && len == size_of(pinned) && (uintptr_t)data % 64 == 0, "it is there");
    must(terrace_objects_unpin(store, ids[pinned]), "unpin");
    for (size_t i = BATCH + 1; i < COUNT; i++) {
        if (i % 20 != 1) {
            must(terrace_objects_remove(store, ids[i]), "remove");
        }
    }
    expect(terrace_objects_remove(store, ids[pinned]) == TERRACE_STATUS_PINNED &&
               terrace_objects_resize(store, ids[pinned], 1) == TERRACE_STATUS_PINNED,
           "a pinned object stays");
    terrace_objects_defragmented done;
    must(terrace_objects_defragment(store, &done), "defragment");
    expect(done.used_bytes_after <= done.used_bytes_before, "objects take no more");
    expect(done.held_bytes_after < done.held_bytes_before, "memory is given back");
    memset(data, (int)(pinned & 0xff), len);
    for (size_t i = BATCH + 1; i < COUNT; i += 20) {
        expect(is(store, ids[i], i), "objects keep their bytes");
    }
    must(terrace_objects_pin(store, ids[pinned], &again, NULL), "pin");
    expect(data == again, "what is pinned does not move");
    must(terrace_objects_unpin(store, ids[pinned]), "unpin");
    must(terrace_objects_unpin(store, ids[pinned]), "unpin");
    expect(terrace_objects_unpin(store, ids[pinned]) == TERRACE_STATUS_NOT_PINNED, "once each");
    must(terrace_objects_remove(store, ids[pinned]), "remove");
}

static void use(const char *name, terrace_objects *store) {
    one_by_one(store);
    reserved_and_consecutive(store);
    const uint64_t *ids = fill(store);
    for (size_t i = 0; i < COUNT; i++) {
        expect(is(store, ids[i], i), "objects have their bytes");
    }
    batches(store, ids);
    enumerate(store, COUNT - BATCH - 1);
    two_threads(store);
    locks(store);
    two_upgrades(store);
    defragmented(store, ids);
    terrace_objects_checked checked;
    terrace_objects_stats stats;
    must(terrace_objects_check(store, &checked), "check");
    must(terrace_objects_check(store, NULL), "check");
    must(terrace_objects_get_stats(store, &stats), "stats");
    expect(checked.objects == stats.objects && checked.object_bytes == stats.object_bytes &&
               checked.uniform > 0,
           "the store is in order");
    printf("%-6s %7" PRIu64 " objects, %8" PRIu64 " bytes of %8" PRIu64 " held, %6" PRIu64
           " of the table\n",
           name, stats.objects, stats.object_bytes, stats.held_bytes, stats.table_bytes);
}

static void in_dram(void) {
    terrace_ledger *ledger;
    must(terrace_ledger_new(64 * MIB, &ledger), "ledger");
    terrace_objects_options options = terrace_objects_options_default();
    options.name = "dram";
    options.ledger = ledger;
    options.patience_ms = 1000;
    options.node = 3;
    options.flags = TERRACE_OBJECTS_HUGE_PAGES_OFF;
    terrace_objects *store;
    must(terrace_objects_dram(64 * MIB, &options, &store), "store");
    use("dram", store);
    uint64_t id;
    must(terrace_objects_create(store, 3 * MIB, &id), "create");
    expect(id >> TERRACE_OBJECT_LOCAL_BITS == 3, "ids name the node");
    expect(terrace_ledger_granted(ledger) >= 3 * MIB, "objects count against the budget");

    /* A lock keeps its store alive. */
    terrace_lock *lock;
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_WRITE, 0, &lock), "lock");
    terrace_objects_close(store);
    must(terrace_lock_replace(lock, "last", 5), "replace");
    expect(terrace_ledger_granted(ledger) > 0, "the store is there");
    terrace_objects_unlock(lock);
    expect(terrace_ledger_granted(ledger) == 0, "a store that ends gives its budget back");
    terrace_ledger_free(ledger);

    must(terrace_objects_node(0, 16 * MIB, NULL, &store), "store on a node");
    must(terrace_objects_create_with(store, "text", 5, &id), "create with");
    terrace_objects_close(store);
}

/* A background thread of the store frees memory that no object uses. */
static void kept(void) {
    terrace_objects_options options = terrace_objects_options_default();
    options.flags = TERRACE_OBJECTS_MAINTENANCE;
    terrace_objects *store;
    must(terrace_objects_dram(64 * MIB, &options, &store), "a store with a maintenance thread");
    const uint64_t *ids = fill(store);
    terrace_objects_stats before, after;
    must(terrace_objects_get_stats(store, &before), "stats");
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 10 != 1) {
            must(terrace_objects_remove(store, ids[i]), "remove");
        }
    }
    for (int tries = 0; tries < 600; tries++) {
        must(terrace_objects_get_stats(store, &after), "stats");
        if (after.held_bytes < before.held_bytes / 2) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    expect(after.held_bytes < before.held_bytes / 2, "a thread defragments");
    terrace_lock *lock;
    must(terrace_objects_lock(store, ids[1], TERRACE_LOCK_MODE_READ, 0, &lock), "lock");
    terrace_objects_close(store);
    terrace_objects_unlock(lock);
}

/* The contents of a log and of a dump are restored. */
static void lasting(const char *directory) {
    char log[4096], dump[4096], text[8] = {0};
    snprintf(log, sizeof log, "%s/log", directory);
    snprintf(dump, sizeof dump, "%s/objects.dump", directory);
    terrace_objects_options options = terrace_objects_options_default();
    options.log_dir = log;
    options.durability = TERRACE_DURABILITY_DEFERRED;
    terrace_objects *store, *again;
    uint64_t id, other;
    uintptr_t len;
    must(terrace_objects_dram(16 * MIB, &options, &store), "a store with a log");
    must(terrace_objects_create_with(store, "logged", 7, &id), "create with");
    must(terrace_objects_checkpoint(store), "checkpoint");
    must(terrace_objects_create_with(store, "later", 6, &other), "create with");
    must(terrace_objects_sync(store), "sync");
    must(terrace_objects_dump(store, dump), "dump");
    expect(terrace_objects_dram(16 * MIB, &options, &again) == TERRACE_STATUS_IO,
           "the log has one owner");
    terrace_objects_close(store);

    must(terrace_objects_dram(16 * MIB, &options, &store), "the same store");
    must(terrace_objects_get(store, id, text, sizeof text, &len), "get");
    expect(len == 7 && strcmp(text, "logged") == 0, "what the dump of the checkpoint has");
    must(terrace_objects_get(store, other, text, sizeof text, &len), "get");
    expect(len == 6 && strcmp(text, "later") == 0, "what the log has");
    terrace_objects_close(store);

    terrace_objects_options restored = terrace_objects_options_default();
    restored.dump = dump;
    must(terrace_objects_dram(16 * MIB, &restored, &store), "a store of a dump");
    must(terrace_objects_get(store, other, text, sizeof text, &len), "get");
    expect(len == 6 && strcmp(text, "later") == 0, "what the dump has");
    expect(terrace_objects_checkpoint(store) == TERRACE_STATUS_INVALID, "it has no log");
    terrace_objects_close(store);
    restored.dump = NULL;
    restored.flags = TERRACE_OBJECTS_GENERATIONS;
    must(terrace_objects_dram(16 * MIB, &restored, &store), "a store with generations");
    must(terrace_objects_create(store, 8, &id), "create");
    must(terrace_objects_remove(store, id), "remove");
    must(terrace_objects_create(store, 8, &other), "create");
    expect(id != other && !terrace_objects_exists(store, id), "an id names one object ever");
    for (int turn = 0; turn < 300; turn++) {
        must(terrace_objects_create(store, 24, &id), "create");
        must(terrace_objects_remove(store, id), "remove");
    }
    terrace_objects_stats stats;
    must(terrace_objects_get_stats(store, &stats), "stats");
    expect(stats.retired == 1 && stats.reserved == 0, "a place serves 255 objects");
    terrace_objects_close(store);
    restored.flags = 0;
    restored.dump = dump;
    restored.log_dir = log;
    expect(terrace_objects_dram(16 * MIB, &restored, &store) == TERRACE_STATUS_INVALID,
           "a dump or a log");
}

/* Two stores share a region whose cap is smaller than their objects. */
static void in_a_file(const char *directory) {
    terrace_region_options options = {0};
    options.cap_bytes = 4 * MIB;
    options.block_bytes = 65536;
    terrace_region *region;
    must(terrace_region_scratch(directory, 96 * MIB, &options, &region), "region");
    terrace_objects *store, *other;
    must(terrace_objects_region(region, 0, 64 * MIB, NULL, &store), "store in the region");
    must(terrace_objects_region(region, 64 * MIB, 0, NULL, &other), "another");
    uint64_t id, large;
    must(terrace_objects_create(other, 20 * MIB, &large), "create");
    must(terrace_objects_write_at(other, large, 20 * MIB - 5, "last", 5), "write at");
    use("region", store);
    must(terrace_objects_create_with(store, "stays", 6, &id), "create with");
    terrace_region_stats stats;
    must(terrace_region_get_stats(region, &stats), "stats");
    expect(stats.evicted > 0 && stats.poisoned == 0, "objects were in the file");
    must(terrace_region_close(region), "close");
    char text[8];
    must(terrace_objects_read_at(other, large, 20 * MIB - 5, text, 5), "read at");
    expect(strcmp(text, "last") == 0, "objects come back from the file");
    must(terrace_objects_get(store, id, text, sizeof text, NULL), "get");
    expect(strcmp(text, "stays") == 0, "stores keep their region");
    terrace_objects_close(other);
    terrace_objects_close(store);
}

int main(int argc, char **argv) {
    in_dram();
    kept();
    in_a_file(argc > 1 ? argv[1] : ".");
    lasting(argc > 1 ? argv[1] : ".");
    return 0;
}

/*
 * Errors: statuses and texts for invalid input, from C.
 *
 *     errors [DIRECTORY]    directory for a scratch file
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terrace.h"

#define MIB ((size_t)1 << 20)

static int failures;

/* Checks that a call returned the expected status, and that the text has a helpful word. */
static void expect(int line, terrace_status got, terrace_status wanted, const char *word) {
    const char *text = terrace_last_error();
    bool said = wanted == TERRACE_STATUS_OK || strstr(text, word) != NULL;
    bool last = wanted == TERRACE_STATUS_OK || terrace_last_status() == wanted;
    if (got != wanted || !said || !last) {
        fprintf(stderr, "errors.c:%d: %s instead of %s, saying \"%s\" and not \"%s\"\n", line,
                terrace_status_name(got), terrace_status_name(wanted), text, word);
        failures++;
    }
}

#define SAYS(call, status, word) expect(__LINE__, (call), TERRACE_STATUS_##status, word)
#define HOLDS(what) expect(__LINE__, (what) ? TERRACE_STATUS_OK : TERRACE_STATUS_PANIC, \
                           TERRACE_STATUS_OK, "")

static void nothing_is_there(void) {
    terrace_region *region = NULL;
    terrace_heap *heap = NULL;
    terrace_pin *pin = NULL;
    terrace_heap_stats heap_stats;
    terrace_region_stats region_stats;
    SAYS(terrace_ledger_new(1, NULL), INVALID, "out is NULL");
    SAYS(terrace_heap_dram(64 * MIB, NULL, NULL), INVALID, "out is NULL");
    SAYS(terrace_heap_region(NULL, 0, 0, NULL, &heap), INVALID, "region is NULL");
    SAYS(terrace_region_open(NULL, 0, 0, NULL, &region), INVALID, "path is NULL");
    SAYS(terrace_region_scratch(NULL, 0, NULL, &region), INVALID, "directory is NULL");
    SAYS(terrace_region_pin(NULL, 0, 0, &pin), INVALID, "region is NULL");
    SAYS(terrace_region_prefetch(NULL, 0, 0), INVALID, "region is NULL");
    SAYS(terrace_region_evict(NULL, 0, 0), INVALID, "region is NULL");
    SAYS(terrace_region_flush(NULL, 0, 0), INVALID, "region is NULL");
    SAYS(terrace_region_advise(NULL, 0, 0, 0), INVALID, "region is NULL");
    SAYS(terrace_region_set_cap(NULL, 0), INVALID, "region is NULL");
    SAYS(terrace_region_get_stats(NULL, &region_stats), INVALID, "region is NULL");
    SAYS(terrace_heap_get_stats(NULL, &heap_stats), INVALID, "heap is NULL");
    SAYS(terrace_heap_trim(NULL), INVALID, "heap is NULL");
    SAYS(terrace_heap_reset(NULL), INVALID, "heap is NULL");
    SAYS(terrace_heap_free(NULL, &failures), INVALID, "heap is NULL");
    SAYS(terrace_heap_free_sized(NULL, &failures, 1, 1), INVALID, "heap is NULL");
    HOLDS(terrace_heap_alloc(NULL, 1, 1) == NULL);
    HOLDS(terrace_heap_alloc_zeroed(NULL, 1, 1) == NULL);
    HOLDS(terrace_heap_calloc(NULL, 1, 1) == NULL);
    HOLDS(terrace_heap_realloc(NULL, NULL, 1, 1) == NULL);
    HOLDS(terrace_heap_usable_size(NULL, &failures) == 0);
    HOLDS(!terrace_heap_contains(NULL, &failures));
    HOLDS(terrace_region_data(NULL) == NULL && terrace_region_len(NULL) == 0);
    HOLDS(terrace_region_block_bytes(NULL) == 0);
    HOLDS(!terrace_region_serves_system_calls(NULL) && *terrace_region_engine(NULL) == '\0');
    HOLDS(terrace_pin_data(NULL) == NULL && terrace_pin_len(NULL) == 0);
    HOLDS(terrace_ledger_budget(NULL) == 0 && terrace_ledger_granted(NULL) == 0);
    SAYS(terrace_region_close(NULL), OK, "");
    terrace_region_unpin(NULL);
    terrace_heap_close(NULL);
    terrace_ledger_free(NULL);
    HOLDS(region == NULL && heap == NULL && pin == NULL);
}

static void regions(const char *directory) {
    terrace_region *region = NULL;
    terrace_region_options options = terrace_region_options_default();
    SAYS(terrace_region_scratch(directory, 64 * MIB, NULL, &region), INVALID, "cap_bytes");
    options.cap_bytes = 100;
    SAYS(terrace_region_scratch(directory, 64 * MIB, &options, &region), INVALID, "too small");
    options.cap_bytes = 4 * MIB;
    SAYS(terrace_region_scratch(directory, 0, &options, &region), INVALID, "cannot be mapped");
    SAYS(terrace_region_scratch("/no/such/directory", MIB, &options, &region), IO, "/no/such/dir");
    SAYS(terrace_region_open("/no/such/file", 0, 0, &options, &region), IO, "/no/such/file");
    SAYS(terrace_region_open(directory, 0, 0, &options, &region), IO, directory);
    options.name = "named";
    options.block_bytes = 12345;
    SAYS(terrace_region_scratch(directory, MIB, &options, &region), INVALID, "named: a block of");
    options.block_bytes = 0;
    options.method = 77;
    SAYS(terrace_region_scratch(directory, MIB, &options, &region), INVALID, "77 is no");
    options.method = TERRACE_METHOD_AUTO;
    options.pagers = 1000;
    SAYS(terrace_region_scratch(directory, MIB, &options, &region), INVALID, "1000 pagers");
    options.pagers = 0;
    terrace_ledger *ledger = NULL;
    SAYS(terrace_ledger_new(0, &ledger), INVALID, "budget");
    SAYS(terrace_ledger_new(4096, &ledger), OK, "");
    options.ledger = ledger;
    SAYS(terrace_region_scratch(directory, MIB, &options, &region), NO_ROOM, "budget");
    options.ledger = NULL;
    terrace_ledger_free(ledger);
    HOLDS(region == NULL);

    /* A pin that exceeds the free part of the cap does not wait forever. */
    options.patience_ms = 200;
    terrace_pin *pin = NULL;
    SAYS(terrace_region_scratch(directory, 64 * MIB, &options, &region), OK, "");
    terrace_pin *first = NULL;
    SAYS(terrace_region_pin(region, 0, 64 * MIB, &pin), INVALID, "its cap is 4MiB; pin less");
    SAYS(terrace_region_pin(region, 0, 3 * MIB, &first), OK, "");
    SAYS(terrace_region_pin(region, 32 * MIB, 2 * MIB, &pin), TIMEOUT, "not ready");
    terrace_region_unpin(first);
    SAYS(terrace_region_close(region), OK, "");
    HOLDS(pin == NULL);
}

static void one_file_is_one_region(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/one", directory);
    FILE *file = fopen(path, "w");
    bool made = file != NULL && fseek(file, MIB - 1, SEEK_SET) == 0 && fputc(0, file) == 0;
    HOLDS(made && fclose(file) == 0);
    terrace_region_options options = terrace_region_options_default();
    options.cap_bytes = MIB;
    terrace_region *region = NULL, *again = NULL;
    SAYS(terrace_region_open(path, 0, 0, &options, &region), OK, "");
    const char *engine = terrace_region_engine(region);
    HOLDS(strcmp(engine, "io_uring") == 0 || strcmp(engine, "threads") == 0);
    SAYS(terrace_region_open(path, 0, 0, &options, &again), IO, "this process has locked it");
    SAYS(terrace_region_close(region), OK, "");
    SAYS(terrace_region_open(path, 0, 0, &options, &again), OK, "");
    SAYS(terrace_region_close(again), OK, "");
    HOLDS(remove(path) == 0);
}

static void parts_of_regions(const char *directory) {
    terrace_region *region = NULL;
    terrace_region_options options = terrace_region_options_default();
    options.name = "named";
    options.cap_bytes = 4 * MIB;
    SAYS(terrace_region_scratch(directory, 64 * MIB, &options, &region), OK, "");
    terrace_pin *pin = NULL;
    SAYS(terrace_region_pin(region, 64 * MIB, 1, &pin), INVALID, "named");
    SAYS(terrace_region_pin(region, UINT64_MAX, 2, &pin), INVALID, "named");
    SAYS(terrace_region_advise(region, 0, 1, 6), INVALID, "6 is no terrace_advice");
    SAYS(terrace_region_set_cap(region, 1), INVALID, "too small");
    HOLDS(pin == NULL);

    terrace_heap *heap = NULL;
    SAYS(terrace_heap_region(region, 4096, 64 * MIB, NULL, &heap), INVALID, "no pages of region");
    SAYS(terrace_heap_region(region, SIZE_MAX, 0, NULL, &heap), INVALID, "least");
    SAYS(terrace_heap_region(region, 0, 4096, NULL, &heap), INVALID, "8MiB at least");
    terrace_heap_options with_ledger = terrace_heap_options_default();
    terrace_ledger *ledger = NULL;
    SAYS(terrace_ledger_new(MIB, &ledger), OK, "");
    with_ledger.ledger = ledger;
    SAYS(terrace_heap_region(region, 0, 0, &with_ledger, &heap), INVALID, "ledger");
    terrace_ledger_free(ledger);

    /* A region lives as long as a heap or a pin of it. */
    SAYS(terrace_heap_region(region, 0, 32 * MIB, NULL, &heap), OK, "");
    terrace_heap *second = NULL;
    terrace_objects *objects = NULL;
    SAYS(terrace_heap_region(region, 16 * MIB, 0, NULL, &second), INVALID, "a part of heap");
    SAYS(terrace_objects_region(region, 0, 16 * MIB, NULL, &objects), INVALID, "a part of heap");
    SAYS(terrace_region_advise(region, 0, MIB, TERRACE_ADVICE_UNUSED), INVALID, "a part of heap");
    HOLDS(second == NULL && objects == NULL);
    SAYS(terrace_region_pin(region, 32 * MIB, 32 * MIB, &pin), INVALID, "its cap is");
    SAYS(terrace_region_pin(region, 40 * MIB, 4096, &pin), OK, "");
    SAYS(terrace_region_close(region), OK, "");
    char *object = terrace_heap_alloc(heap, 20 * MIB, 0);
    HOLDS(object != NULL);
    memset(object, 1, 20 * MIB);
    HOLDS(object[0] == 1 && object[20 * MIB - 1] == 1);
    terrace_heap_close(heap);
    memset(terrace_pin_data(pin), 2, terrace_pin_len(pin));
    terrace_region_unpin(pin);
}

static void heaps(void) {
    terrace_heap *heap = NULL;
    terrace_heap_options options = terrace_heap_options_default();
    options.name = "named";
    SAYS(terrace_heap_dram(4096, &options, &heap), INVALID, "named: 4096 bytes");
    SAYS(terrace_heap_dram(64 * MIB + 1, &options, &heap), INVALID, "pages of 4 KiB");
    SAYS(terrace_heap_dram(SIZE_MAX - 4095, &options, &heap), NO_ROOM, "addresses");
    SAYS(terrace_heap_node(1000, 64 * MIB, &options, &heap), INVALID, "node");
    options.flags = 128;
    SAYS(terrace_heap_dram(64 * MIB, &options, &heap), INVALID, "0x80");
    options.flags = TERRACE_HEAP_RETAIN_OFF | TERRACE_HEAP_THREAD_CACHES_OFF;
    options.metadata = 9;
    SAYS(terrace_heap_dram(64 * MIB, &options, &heap), INVALID, "9 is no terrace_metadata");
    options.metadata = TERRACE_METADATA_SEPARATE;
    options.decay_ms = -2;
    SAYS(terrace_heap_dram(64 * MIB, &options, &heap), INVALID, "decay_ms -2");
    options.decay_ms = TERRACE_HEAP_KEEP;
    HOLDS(heap == NULL);
    SAYS(terrace_heap_node(0, 64 * MIB, &options, &heap), OK, "");

    HOLDS(terrace_heap_alloc(heap, 65 * MIB, 0) == NULL);
    SAYS(terrace_last_status(), NO_ROOM, "no room for 68157440 bytes");
    HOLDS(terrace_heap_alloc(heap, 8, 24) == NULL);
    SAYS(terrace_last_status(), INVALID, "power of two");
    HOLDS(terrace_heap_alloc(heap, SIZE_MAX, 1) == NULL);
    SAYS(terrace_last_status(), INVALID, "cannot be");
    HOLDS(terrace_heap_calloc(heap, SIZE_MAX / 2, 3) == NULL);
    SAYS(terrace_last_status(), INVALID, "cannot be");

    /* Size 0 counts as 1, and NULL is accepted as by malloc's family. */
    void *empty = terrace_heap_alloc(heap, 0, 0);
    void *other = terrace_heap_realloc(heap, NULL, 0, 0);
    HOLDS(empty != NULL && other != NULL && empty != other);
    HOLDS(terrace_heap_usable_size(heap, empty) >= 1);
    other = terrace_heap_realloc(heap, other, 100, 0);
    HOLDS(terrace_heap_usable_size(heap, other) >= 100);
    SAYS(terrace_heap_free_sized(heap, empty, 0, 0), OK, "");
    SAYS(terrace_heap_free(heap, NULL), OK, "");
    HOLDS(terrace_heap_usable_size(heap, NULL) == 0);

    /* Memory that is not the heap's is not touched. */
    int mine = 1;
    SAYS(terrace_heap_free(heap, &mine), INVALID, "no address of this heap");
    SAYS(terrace_heap_free_sized(heap, &mine, sizeof mine, 4), INVALID, "no address");
    HOLDS(terrace_heap_realloc(heap, &mine, 9, 0) == NULL);
    SAYS(terrace_last_status(), INVALID, "no address");
    HOLDS(terrace_heap_usable_size(heap, &mine) == 0 && mine == 1);
    HOLDS(terrace_heap_contains(heap, other) && !terrace_heap_contains(heap, &mine));
    HOLDS(!terrace_heap_contains(heap, NULL));
    SAYS(terrace_heap_free(heap, other), OK, "");
    terrace_heap_close(heap);
}

static void no_store_is_there(void) {
    terrace_objects *store = NULL;
    terrace_lock *lock = NULL;
    terrace_objects_stats stats;
    uint64_t id = 9;
    size_t len = 9;
    bool yes = false;
    void *data = NULL;
    SAYS(terrace_objects_dram(64 * MIB, NULL, NULL), INVALID, "out is NULL");
    SAYS(terrace_objects_region(NULL, 0, 0, NULL, &store), INVALID, "region is NULL");
    SAYS(terrace_objects_create(NULL, 1, &id), INVALID, "objects is NULL");
    SAYS(terrace_objects_create_with(NULL, "", 1, &id), INVALID, "objects is NULL");
    SAYS(terrace_objects_create_consecutive(NULL, NULL, 0, &id), INVALID, "objects is NULL");
    SAYS(terrace_objects_reserve(NULL, &id), INVALID, "objects is NULL");
    SAYS(terrace_objects_reserve_consecutive(NULL, 1, &id), INVALID, "objects is NULL");
    SAYS(terrace_objects_release(NULL, 1), INVALID, "objects is NULL");
    SAYS(terrace_objects_create_reserved(NULL, 1, "", 1), INVALID, "objects is NULL");
    SAYS(terrace_objects_remove(NULL, 1), INVALID, "objects is NULL");
    SAYS(terrace_objects_ids(NULL, 0, &id, 1, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_id_ranges(NULL, 0, NULL, 0, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_get(NULL, 1, &id, 8, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_read_at(NULL, 1, 0, &id, 8), INVALID, "objects is NULL");
    SAYS(terrace_objects_put(NULL, 1, &id, 8), INVALID, "objects is NULL");
    SAYS(terrace_objects_write_at(NULL, 1, 0, &id, 8), INVALID, "objects is NULL");
    SAYS(terrace_objects_replace(NULL, 1, &id, 8), INVALID, "objects is NULL");
    SAYS(terrace_objects_resize(NULL, 1, 8), INVALID, "objects is NULL");
    SAYS(terrace_objects_size(NULL, 1, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_is_read_only(NULL, 1, &yes), INVALID, "objects is NULL");
    SAYS(terrace_objects_set_read_only(NULL, 1, true), INVALID, "objects is NULL");
    SAYS(terrace_objects_pin(NULL, 1, &data, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_unpin(NULL, 1), INVALID, "objects is NULL");
    SAYS(terrace_objects_lock(NULL, 1, 0, 0, &lock), INVALID, "objects is NULL");
    SAYS(terrace_objects_get_many(NULL, NULL, 0, NULL, 0, NULL, &len), INVALID, "objects is NULL");
    SAYS(terrace_objects_put_many(NULL, NULL, NULL, 0, NULL), INVALID, "objects is NULL");
    SAYS(terrace_objects_remove_many(NULL, NULL, 0, NULL), INVALID, "objects is NULL");
    SAYS(terrace_objects_get_stats(NULL, &stats), INVALID, "objects is NULL");
    SAYS(terrace_objects_check(NULL, NULL), INVALID, "objects is NULL");
    SAYS(terrace_objects_defragment(NULL, NULL), INVALID, "objects is NULL");
    SAYS(terrace_lock_upgrade(NULL, 0), INVALID, "lock is NULL");
    SAYS(terrace_lock_downgrade(NULL), INVALID, "lock is NULL");
    SAYS(terrace_lock_get(NULL, &id, 8, &len), INVALID, "lock is NULL");
    SAYS(terrace_lock_put(NULL, &id, 8), INVALID, "lock is NULL");
    SAYS(terrace_lock_replace(NULL, &id, 8), INVALID, "lock is NULL");
    SAYS(terrace_lock_resize(NULL, 8), INVALID, "lock is NULL");
    SAYS(terrace_lock_remove(NULL), INVALID, "lock is NULL");
    HOLDS(!terrace_objects_exists(NULL, 1) && terrace_lock_object(NULL) == 0);
    terrace_objects_unlock(NULL);
    terrace_objects_close(NULL);
    HOLDS(store == NULL && lock == NULL && data == NULL && id == 9 && len == 9 && !yes);
}

static void stores(const char *directory) {
    terrace_objects *store = NULL;
    terrace_region *region = NULL;
    terrace_region_options of_region = terrace_region_options_default();
    terrace_objects_options options = terrace_objects_options_default();
    options.name = "named";
    SAYS(terrace_objects_dram(4096, &options, &store), INVALID, "2MiB is the least");
    SAYS(terrace_objects_dram(SIZE_MAX - 4095, &options, &store), INVALID, "4TiB is the most");
    options.log_dir = "/nowhere/at/all\x01/";
    options.durability = 3;
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), INVALID, "durability 3");
    options.durability = 0;
    options.log_dir = "/dev/null/log";
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), IO, "/dev/null/log");
    options.log_dir = NULL;
    options.dump = "/nowhere/at/all";
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), IO, "/nowhere/at/all");
    options.dump = NULL;
    SAYS(terrace_objects_node(1000, 64 * MIB, &options, &store), INVALID, "node 1000");
    options.node = 65536;
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), INVALID, "named: node 65536");
    options.node = 0;
    options.flags = 16;
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), INVALID, "named: flags 0x10");
    options.flags = 0;
    options.reserved = 1;
    SAYS(terrace_objects_dram(64 * MIB, &options, &store), INVALID, "named: reserved is 1");
    options.reserved = 0;
    of_region.cap_bytes = 4 * MIB;
    SAYS(terrace_region_scratch(directory, 64 * MIB, &of_region, &region), OK, "");
    SAYS(terrace_objects_region(region, 4096, 64 * MIB, NULL, &store), INVALID, "no pages of");
    SAYS(terrace_objects_region(region, 100, 8 * MIB, NULL, &store), INVALID, "no pages of");
    SAYS(terrace_objects_region(region, SIZE_MAX, 0, NULL, &store), INVALID, "least");
    SAYS(terrace_region_close(region), OK, "");
    HOLDS(store == NULL);
}

static void objects(void) {
    terrace_objects *store = NULL;
    terrace_objects_options options = terrace_objects_options_default();
    options.patience_ms = 50;
    uint64_t id = 0, none = 0;
    size_t len = 0;
    char text[16] = "kept";
    SAYS(terrace_objects_dram(8 * MIB, &options, &store), OK, "");
    SAYS(terrace_objects_create_with(store, "some bytes", 11, &id), OK, "");
    SAYS(terrace_objects_get(store, id, text, 10, &len), BUFFER, "room for 10");
    HOLDS(len == 11 && strcmp(text, "kept") == 0);
    SAYS(terrace_objects_get(store, id, NULL, 10, &len), INVALID, "buffer is NULL");
    SAYS(terrace_objects_get(store, id, text, SIZE_MAX, &len), INVALID, "cannot be");
    SAYS(terrace_objects_get(store, id + 1, text, 10, &len), NOT_FOUND, "no object");
    SAYS(terrace_objects_get(store, 0, text, 10, &len), NOT_FOUND, "no object");
    SAYS(terrace_objects_read_at(store, id, 5, text, 10), LENGTH, "11 bytes, not 15");
    SAYS(terrace_objects_read_at(store, id, SIZE_MAX, text, 10), LENGTH, "11 bytes");
    SAYS(terrace_objects_put(store, id, text, 10), LENGTH, "11 bytes, not 10");
    SAYS(terrace_objects_put(store, id, NULL, 11), INVALID, "bytes is NULL");
    SAYS(terrace_objects_write_at(store, id, 11, text, 1), LENGTH, "11 bytes, not 12");
    SAYS(terrace_objects_resize(store, id, SIZE_MAX), INVALID, "longest");
    SAYS(terrace_objects_resize(store, id, 9 * MIB), NO_ROOM, "no room");
    SAYS(terrace_objects_create(store, SIZE_MAX, &none), INVALID, "longest");
    SAYS(terrace_objects_create(store, 9 * MIB, &none), NO_ROOM, "no room");
    SAYS(terrace_objects_create_with(store, NULL, 1, &none), INVALID, "bytes is NULL");
    SAYS(terrace_objects_create(store, 1, NULL), INVALID, "out is NULL");
    SAYS(terrace_objects_reserve_consecutive(store, SIZE_MAX, &none), NO_ROOM, "ids");
    SAYS(terrace_objects_reserve_consecutive(store, 0, &none), INVALID, "of no objects");
    SAYS(terrace_objects_release(store, id), NOT_RESERVED, "not reserved");
    SAYS(terrace_objects_create_reserved(store, id, "", 0), NOT_RESERVED, "not reserved");
    SAYS(terrace_objects_create_reserved(store, 0, "", 0), NOT_RESERVED, "not reserved");
    SAYS(terrace_objects_unpin(store, id), NOT_PINNED, "not pinned");
    SAYS(terrace_objects_size(store, id, NULL), INVALID, "len is NULL");
    SAYS(terrace_objects_ids(store, 0, NULL, 1, &len), INVALID, "ids is NULL");
    SAYS(terrace_objects_id_ranges(store, 0, NULL, 1, &len), INVALID, "ranges is NULL");
    SAYS(terrace_objects_id_ranges(store, 0, NULL, 0, NULL), INVALID, "count is NULL");

    /* An object without bytes has an address, too. */
    void *data = NULL;
    uint64_t empty = 0;
    SAYS(terrace_objects_create(store, 0, &empty), OK, "");
    SAYS(terrace_objects_pin(store, empty, &data, &len), OK, "");
    HOLDS(data != NULL && len == 0);
    SAYS(terrace_objects_remove(store, empty), PINNED, "is pinned");
    SAYS(terrace_objects_pin(store, 0, &data, &len), NOT_FOUND, "no object");
    SAYS(terrace_objects_unpin(store, empty), OK, "");

    terrace_bytes contents[2] = {{"a", 1}, {NULL, 1}};
    terrace_status statuses[2] = {TERRACE_STATUS_PANIC, TERRACE_STATUS_PANIC};
    uint64_t ids[2] = {id, id};
    SAYS(terrace_objects_create_consecutive(store, contents, 2, &none), INVALID, "data is NULL");
    SAYS(terrace_objects_create_consecutive(store, contents, 0, &none), INVALID, "of no objects");
    SAYS(terrace_objects_put_many(store, ids, contents, 2, statuses), INVALID, "data is NULL");
    SAYS(terrace_objects_put_many(store, NULL, contents, 1, statuses), INVALID, "ids is NULL");
    SAYS(terrace_objects_remove_many(store, ids, SIZE_MAX, NULL), INVALID, "cannot be");
    SAYS(terrace_objects_get_many(store, ids, 2, text, 16, NULL, &len), INVALID, "parts is NULL");
    HOLDS(statuses[0] == TERRACE_STATUS_PANIC && none == 0);

    terrace_lock *lock = NULL, *other = NULL;
    SAYS(terrace_objects_lock(store, id, 2, 0, &lock), INVALID, "2 is no terrace_lock_mode");
    SAYS(terrace_objects_lock(store, 0, 0, 0, &lock), NOT_FOUND, "no object");
    SAYS(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_READ, 0, &lock), OK, "");
    SAYS(terrace_lock_downgrade(lock), NOT_LOCKED, "not locked that way");
    SAYS(terrace_objects_get(store, id, text, 16, NULL), OK, "");
    SAYS(terrace_objects_put(store, id, text, 11), TIMEOUT, "was locked");
    SAYS(terrace_lock_upgrade(lock, 0), OK, "");
    SAYS(terrace_objects_get(store, id, text, 16, NULL), TIMEOUT, "was locked");
    SAYS(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_WRITE, 0, &other), TIMEOUT, "locked");
    SAYS(terrace_lock_get(lock, text, 3, &len), BUFFER, "room for 3");
    SAYS(terrace_lock_put(lock, text, 3), LENGTH, "11 bytes, not 3");
    SAYS(terrace_lock_resize(lock, 9 * MIB), NO_ROOM, "no room");
    terrace_objects_unlock(lock);
    SAYS(terrace_objects_put(store, id, "more bytes", 11), OK, "");
    SAYS(terrace_objects_check(store, NULL), OK, "");
    terrace_objects_close(store);
    HOLDS(other == NULL);
}

int main(int argc, char **argv) {
    HOLDS(terrace_last_status() == TERRACE_STATUS_OK && *terrace_last_error() == '\0');
    HOLDS(strcmp(terrace_status_name(TERRACE_STATUS_NO_ROOM), "no room") == 0);
    HOLDS(strcmp(terrace_status_name(99), "unknown status") == 0);
    nothing_is_there();
    regions(argc > 1 ? argv[1] : ".");
    one_file_is_one_region(argc > 1 ? argv[1] : ".");
    parts_of_regions(argc > 1 ? argv[1] : ".");
    heaps();
    no_store_is_there();
    stores(argc > 1 ? argv[1] : ".");
    objects();
    printf("%d wrong\n", failures);
    return failures == 0 ? 0 : 1;
}

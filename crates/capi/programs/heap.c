/*
 * A heap in DRAM and a heap in a file, side by side, from C.
 *
 *     heap [DIRECTORY]    directory for the file, which is removed at the end
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terrace.h"

#define MIB ((size_t)1 << 20)
#define COUNT 20000

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

static void print_stats(const char *name, const terrace_heap *heap) {
    terrace_heap_stats stats;
    must(terrace_heap_get_stats(heap, &stats), "stats");
    printf("%-5s %8" PRIu64 " KiB taken, %8" PRIu64 " KiB of objects, %5" PRIu64
           " KiB of metadata\n",
           name, stats.taken_bytes >> 10, (stats.small_bytes + stats.large_bytes) >> 10,
           stats.metadata_bytes >> 10);
}

/* Every byte of an object is its number. */
static size_t size_of(size_t number) { return 100 + number * 37 % 3000; }

static void use(const char *name, terrace_heap *heap) {
    unsigned char **objects = terrace_heap_calloc(heap, COUNT, sizeof *objects);
    expect(objects != NULL && objects[COUNT - 1] == NULL, "calloc gives zeros");
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = terrace_heap_alloc(heap, size_of(i), i % 5 == 0 ? 64 : 0);
        expect(objects[i] != NULL, "there is room");
        expect((uintptr_t)objects[i] % (i % 5 == 0 ? 64 : 16) == 0, "objects are aligned");
        expect(terrace_heap_usable_size(heap, objects[i]) >= size_of(i), "objects have their size");
        memset(objects[i], (int)(i & 0xff), size_of(i));
    }
    for (size_t i = 0; i < COUNT; i += 2) {
        size_t align = i % 5 == 0 ? 64 : 0;
        objects[i] = terrace_heap_realloc(heap, objects[i], 2 * size_of(i), align);
        expect(objects[i] != NULL, "there is room");
    }
    print_stats(name, heap);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t at = 0; at < size_of(i); at += 50) {
            expect(objects[i][at] == (i & 0xff), "objects keep their bytes");
        }
        if (i % 2 == 0) {
            must(terrace_heap_free(heap, objects[i]), "free");
        } else {
            must(terrace_heap_free_sized(heap, objects[i], size_of(i), i % 5 == 0 ? 64 : 0),
                 "free sized");
        }
    }
    must(terrace_heap_free(heap, objects), "free");
    must(terrace_heap_trim(heap), "trim");
    terrace_heap_stats stats;
    must(terrace_heap_get_stats(heap, &stats), "stats");
    expect(stats.small_bytes == 0 && stats.large_bytes == 0, "nothing is left");
}

static void in_dram(void) {
    terrace_ledger *ledger;
    must(terrace_ledger_new(256 * MIB, &ledger), "ledger");
    terrace_heap_options options = terrace_heap_options_default();
    options.name = "dram";
    options.ledger = ledger;
    options.decay_ms = 100;
    terrace_heap *heap;
    must(terrace_heap_dram(128 * MIB, &options, &heap), "heap");
    use("dram", heap);
    expect(terrace_ledger_budget(ledger) == 256 * MIB, "the budget is what it was");
    /* Frees everything at once, twice. */
    expect(terrace_heap_alloc(heap, 10 * MIB, 0) != NULL, "there is room");
    expect(terrace_ledger_granted(ledger) >= 10 * MIB, "objects count against the budget");
    must(terrace_heap_reset(heap), "reset");
    expect(terrace_heap_alloc(heap, 10 * MIB, 4096) != NULL, "there is room again");
    terrace_heap_close(heap);
    expect(terrace_ledger_granted(ledger) == 0, "a heap that ends gives its budget back");
    terrace_ledger_free(ledger);
}

static void in_a_file(const char *path) {
    FILE *file = fopen(path, "w");
    expect(file != NULL && fclose(file) == 0, "the file can be made");
    terrace_region_options options = {0};
    options.name = "file";
    options.cap_bytes = 8 * MIB;
    options.block_bytes = 65536;
    terrace_region *region;
    must(terrace_region_open(path, 0, 96 * MIB, &options, &region), "region");
    expect(terrace_region_len(region) == 96 * MIB, "a region may be longer than its file");
    expect(terrace_region_block_bytes(region) == 65536, "blocks are as long as they should be");

    /* The heap has the first 64 MiB, with its metadata; the rest is used directly. */
    terrace_heap_options in_region = {0};
    in_region.name = "heap in the file";
    in_region.metadata = TERRACE_METADATA_TOGETHER;
    terrace_heap *heap;
    must(terrace_heap_region(region, 0, 64 * MIB, &in_region, &heap), "heap");
    expect(terrace_heap_contains(heap, terrace_region_data(region)), "the heap is in the region");
    use("file", heap);
    terrace_heap_close(heap);

    char *bytes = terrace_region_data(region);
    must(terrace_region_advise(region, 0, 96 * MIB, TERRACE_ADVICE_SEQUENTIAL), "advise");
    must(terrace_region_prefetch(region, 64 * MIB, MIB), "prefetch");
    terrace_pin *pin;
    must(terrace_region_pin(region, 64 * MIB, 100, &pin), "pin");
    expect(terrace_pin_data(pin) == bytes + 64 * MIB && terrace_pin_len(pin) == 100, "it is there");
    strcpy(terrace_pin_data(pin), "kept");
    terrace_region_unpin(pin);
    must(terrace_region_evict(region, 64 * MIB, MIB), "evict");
    must(terrace_region_set_cap(region, 4 * MIB), "set cap");

    /* Unused bytes are not written back; used again they are. */
    memset(bytes + 80 * MIB, 7, MIB);
    must(terrace_region_advise(region, 80 * MIB, MIB, TERRACE_ADVICE_UNUSED), "advise");
    must(terrace_region_evict(region, 80 * MIB, MIB), "evict");
    terrace_region_stats without;
    must(terrace_region_get_stats(region, &without), "stats");
    expect(without.discarded >= MIB / 65536, "blocks were discarded");
    must(terrace_region_advise(region, 80 * MIB, MIB, TERRACE_ADVICE_USED), "advise");
    strcpy(bytes + 80 * MIB, "again");
    must(terrace_region_evict(region, 80 * MIB, MIB), "evict");
    expect(strcmp(bytes + 80 * MIB, "again") == 0, "what is used again is kept");
    must(terrace_region_flush(region, 0, terrace_region_len(region)), "flush");

    terrace_region_stats stats;
    must(terrace_region_get_stats(region, &stats), "stats");
    printf("file  %8" PRIu64 " KiB read, %8" PRIu64 " KiB written, %" PRIu64
           " faults, half of them in %" PRIu64 " us\n",
           stats.read_bytes >> 10, stats.written_bytes >> 10, stats.faults,
           stats.fault_p50_ns / 1000);
    expect(stats.written_bytes > 16 * MIB && stats.poisoned == 0, "objects were in the file");
    must(terrace_region_close(region), "close");

    must(terrace_region_open(path, 64 * MIB, 0, &options, &region), "the region again");
    expect(strcmp(terrace_region_data(region), "kept") == 0, "a file keeps what was written");
    must(terrace_region_close(region), "close");
    expect(remove(path) == 0, "the file can be removed");
}

int main(int argc, char **argv) {
    char path[4096];
    snprintf(path, sizeof path, "%s/terrace-heap.region", argc > 1 ? argv[1] : ".");
    printf("terrace %s\n", terrace_version());
    in_dram();
    in_a_file(path);
    return 0;
}

/*
 * Heaps and regions in a child process: it has a copy of heaps in DRAM, and no regions.
 *
 *     fork [DIRECTORY]    directory for unnamed files
 */

#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terrace.h"

#define MIB ((size_t)1 << 20)
#define COUNT 10000
#define BYTES 1000

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

/* Objects of a heap. */
struct objects {
    terrace_heap *heap;
    unsigned char *all[COUNT];
};

static void allocate(struct objects *objects, terrace_heap *heap) {
    objects->heap = heap;
    for (size_t i = 0; i < COUNT; i++) {
        objects->all[i] = terrace_heap_alloc(heap, BYTES, 0);
        expect(objects->all[i] != NULL, "there is room");
    }
}

static void fill(struct objects *objects, int stamp) {
    for (size_t i = 0; i < COUNT; i++) {
        memset(objects->all[i], stamp, BYTES);
    }
}

static bool are(const struct objects *objects, int stamp) {
    for (size_t i = 0; i < COUNT; i++) {
        if (objects->all[i][0] != stamp || objects->all[i][BYTES - 1] != stamp) {
            return false;
        }
    }
    return true;
}

/* Allocates and frees in a heap and by malloc, which a child may do. */
static bool works(terrace_heap *heap) {
    void *object = terrace_heap_alloc(heap, MIB, 0), *other = malloc(MIB);
    bool there = object != NULL && other != NULL;
    if (there) {
        memset(object, 1, MIB);
        memset(other, 1, MIB);
    }
    free(other);
    return there && terrace_heap_free(heap, object) == TERRACE_STATUS_OK;
}

/* Runs a child. Returns the signal that ended it, or 0 if its checks passed. */
static int child(bool (*work)(struct objects *), struct objects *objects) {
    pid_t pid = fork();
    expect(pid >= 0, "there can be a child");
    if (pid == 0) {
        _exit(work(objects) ? 0 : 1);
    }
    int status;
    expect(waitpid(pid, &status, 0) == pid, "the child ends");
    expect(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "the child finds what it should");
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool changes_its_copy(struct objects *objects) {
    bool had = are(objects, 1);
    fill(objects, 2);
    return had && are(objects, 2) && works(objects->heap);
}

static terrace_heap *dram;

static bool touches_nothing(struct objects *objects) {
    (void)objects;
    return works(dram);
}

static bool reads(struct objects *objects) { return are(objects, 1); }

static void in_dram(struct objects *objects) {
    allocate(objects, dram);
    fill(objects, 1);
    expect(child(changes_its_copy, objects) == 0, "a child has a copy of a heap in DRAM");
    expect(are(objects, 1) && works(dram), "the parent keeps its own");
}

static void in_a_region(struct objects *objects, const char *directory, uint32_t metadata) {
    terrace_region_options options = {0};
    options.cap_bytes = 8 * MIB;
    options.block_bytes = 65536;
    terrace_region *region;
    must(terrace_region_scratch(directory, 64 * MIB, &options, &region), "region");
    terrace_heap_options in_region = {0};
    in_region.metadata = metadata;
    terrace_heap *heap;
    must(terrace_heap_region(region, 0, 0, &in_region, &heap), "heap");
    allocate(objects, heap);
    fill(objects, 1);

    if (metadata == TERRACE_METADATA_SEPARATE) {
        expect(child(touches_nothing, objects) == 0, "a child goes on without the region");
        expect(child(reads, objects) == SIGSEGV, "the region is not mapped there");
    } else {
        expect(child(touches_nothing, objects) == SIGSEGV, "such a heap ends a child at once");
    }
    expect(are(objects, 1) && works(heap), "the parent keeps all");
    terrace_heap_close(heap);
    must(terrace_region_close(region), "close");
    expect(child(touches_nothing, objects) == 0, "a child is as any when the heap has ended");
}

int main(int argc, char **argv) {
    static struct objects objects;
    const char *directory = argc > 1 ? argv[1] : ".";
    must(terrace_heap_dram(64 * MIB, NULL, &dram), "heap");
    in_dram(&objects);
    in_a_region(&objects, directory, TERRACE_METADATA_SEPARATE);
    in_a_region(&objects, directory, TERRACE_METADATA_TOGETHER);
    terrace_heap_close(dram);
    printf("children have what they should\n");
    return 0;
}

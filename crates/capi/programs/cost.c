/*
 * Cost of a call compared with malloc: the medians of some rounds, in one thread.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "terrace.h"

#define ROUNDS 9
#define COUNT 100000
#define BYTES 64
#define ALIGN 16
#define BATCH 32
#define OBJECTS (1 << 22)

static terrace_objects *store;
static uint64_t ids[OBJECTS], state = 1;

static double now_ns(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void with_malloc(terrace_heap *heap) {
    (void)heap;
    void *volatile object = malloc(BYTES);
    free(object);
}

static void with_free(terrace_heap *heap) {
    void *volatile object = terrace_heap_alloc(heap, BYTES, ALIGN);
    (void)terrace_heap_free(heap, object);
}

static void with_free_sized(terrace_heap *heap) {
    void *volatile object = terrace_heap_alloc(heap, BYTES, ALIGN);
    (void)terrace_heap_free_sized(heap, object, BYTES, ALIGN);
}

static void with_contains(terrace_heap *heap) {
    volatile bool inside = terrace_heap_contains(heap, heap);
    (void)inside;
}

static void with_get(terrace_heap *heap) {
    (void)heap;
    char volatile bytes[BYTES];
    (void)terrace_objects_get(store, ids[0], (char *)bytes, BYTES, NULL);
}

static void with_put(terrace_heap *heap) {
    (void)heap;
    char bytes[BYTES] = {0};
    (void)terrace_objects_put(store, ids[0], bytes, BYTES);
}

/* A random object, which the processor cannot predict. */
static uint64_t any(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ids[(state >> 33) % OBJECTS];
}

static void with_get_any(terrace_heap *heap) {
    (void)heap;
    char volatile bytes[BYTES];
    for (int i = 0; i < BATCH; i++) {
        (void)terrace_objects_get(store, any(), (char *)bytes, BYTES, NULL);
    }
}

static void with_get_many_of_any(terrace_heap *heap) {
    (void)heap;
    char volatile bytes[BATCH * BYTES];
    terrace_part parts[BATCH];
    uint64_t some[BATCH];
    for (int i = 0; i < BATCH; i++) {
        some[i] = any();
    }
    (void)terrace_objects_get_many(store, some, BATCH, (char *)bytes, sizeof bytes, parts, NULL);
}

static void with_lock(terrace_heap *heap) {
    (void)heap;
    terrace_lock *lock;
    (void)terrace_objects_lock(store, ids[0], TERRACE_LOCK_MODE_WRITE, 0, &lock);
    terrace_objects_unlock(lock);
}

static int compare(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

static void measure(const char *name, int count, void (*call)(terrace_heap *),
                    terrace_heap *heap) {
    double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < count; i++) {
            call(heap);
        }
        rounds[round] = (now_ns() - start) / count;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    printf("%-36s %6.1f ns\n", name, rounds[ROUNDS / 2]);
}

int main(void) {
    terrace_heap *heap;
    if (terrace_heap_dram((size_t)64 << 20, NULL, &heap) != TERRACE_STATUS_OK) {
        fprintf(stderr, "%s\n", terrace_last_error());
        return 1;
    }
    measure("malloc and free", COUNT, with_malloc, heap);
    measure("terrace_heap_alloc and _free", COUNT, with_free, heap);
    measure("terrace_heap_alloc and _free_sized", COUNT, with_free_sized, heap);
    measure("terrace_heap_contains", COUNT, with_contains, heap);
    terrace_heap_close(heap);
    if (terrace_objects_dram((size_t)512 << 20, NULL, &store) != TERRACE_STATUS_OK) {
        fprintf(stderr, "%s\n", terrace_last_error());
        return 1;
    }
    for (int i = 0; i < OBJECTS; i++) {
        (void)terrace_objects_create(store, BYTES, &ids[i]);
    }
    measure("terrace_objects_get", COUNT, with_get, NULL);
    measure("terrace_objects_put", COUNT, with_put, NULL);
    measure("32 times terrace_objects_get", COUNT / BATCH, with_get_any, NULL);
    measure("terrace_objects_get_many of 32", COUNT / BATCH, with_get_many_of_any, NULL);
    measure("terrace_objects_lock and _unlock", COUNT, with_lock, NULL);
    terrace_objects_close(store);
    return 0;
}

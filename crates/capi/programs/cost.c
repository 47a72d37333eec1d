/*
 * What a call costs beside malloc's: the medians of some rounds, one thread.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "terrace.h"

#define ROUNDS 9
#define COUNT 100000
#define BYTES 64
#define ALIGN 16

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

static int compare(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return difference < 0 ? -1 : difference > 0;
}

static void measure(const char *name, void (*call)(terrace_heap *), terrace_heap *heap) {
    double rounds[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_ns();
        for (int i = 0; i < COUNT; i++) {
            call(heap);
        }
        rounds[round] = (now_ns() - start) / COUNT;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    printf("%-36s %5.1f ns\n", name, rounds[ROUNDS / 2]);
}

int main(void) {
    terrace_heap *heap;
    if (terrace_heap_dram((size_t)64 << 20, NULL, &heap) != TERRACE_STATUS_OK) {
        fprintf(stderr, "%s\n", terrace_last_error());
        return 1;
    }
    measure("malloc and free", with_malloc, heap);
    measure("terrace_heap_alloc and _free", with_free, heap);
    measure("terrace_heap_alloc and _free_sized", with_free_sized, heap);
    measure("terrace_heap_contains", with_contains, heap);
    terrace_heap_close(heap);
    return 0;
}

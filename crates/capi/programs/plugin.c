/*
 * The library as a plug-in: loaded at run time, used, and closed.
 *
 *     plugin LIBRARY
 */

#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terrace.h"

#define THREADS 8
#define COUNT 1000

static void expect(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "it does not hold that %s\n", what);
        exit(1);
    }
}

/* Functions of the header that are called here. */
static struct {
    __typeof__(&terrace_version) version;
    __typeof__(&terrace_last_error) last_error;
    __typeof__(&terrace_heap_dram) dram;
    __typeof__(&terrace_heap_alloc) alloc;
    __typeof__(&terrace_heap_free) free;
    __typeof__(&terrace_heap_close) close;
} terrace;

static void load(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    expect(found != NULL, name);
    memcpy(function, &found, sizeof found);
}

static void use(terrace_heap *heap) {
    unsigned char *objects[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        objects[i] = terrace.alloc(heap, 1 + i, 0);
        expect(objects[i] != NULL, "there is room");
        memset(objects[i], (int)(i & 0xff), 1 + i);
    }
    for (size_t i = 0; i < COUNT; i++) {
        expect(objects[i][i] == (i & 0xff), "objects keep their bytes");
        expect(terrace.free(heap, objects[i]) == TERRACE_STATUS_OK, "they can be freed");
    }
}

static pthread_barrier_t used, given_back;

/* A thread that ends after dlclose: its exit handlers run code of the library. */
static void *use_and_outlive(void *heap) {
    use(heap);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&given_back);
    return NULL;
}

int main(int argc, char **argv) {
    expect(argc > 1, "the library is named");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    /* Threads may still run code of the library: it stays loaded. */
    expect(dlclose(library) == 0, "the library can be given back");
    library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
    expect(library != NULL, "a library that was loaded once stays");
    load(library, "terrace_version", &terrace.version);
    load(library, "terrace_last_error", &terrace.last_error);
    load(library, "terrace_heap_dram", &terrace.dram);
    load(library, "terrace_heap_alloc", &terrace.alloc);
    load(library, "terrace_heap_free", &terrace.free);
    load(library, "terrace_heap_close", &terrace.close);
    printf("terrace %s\n", terrace.version());

    pthread_t threads[THREADS];
    terrace_heap *heap;
    if (terrace.dram((size_t)64 << 20, NULL, &heap) != TERRACE_STATUS_OK) {
        fprintf(stderr, "%s\n", terrace.last_error());
        return 1;
    }
    use(heap);
    pthread_barrier_init(&used, NULL, THREADS + 1);
    pthread_barrier_init(&given_back, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        int failed = pthread_create(&threads[i], NULL, use_and_outlive, heap);
        expect(failed == 0, "a thread begins");
    }
    pthread_barrier_wait(&used);
    terrace.close(heap);
    expect(dlclose(library) == 0, "the library can be given back");
    pthread_barrier_wait(&given_back);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}

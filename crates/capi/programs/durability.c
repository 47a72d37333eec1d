/*
 * Reports of a store with a log: a failure of its last sync, the results of recovery, and messages
 * of its threads; and that a child process does not change it.
 *
 *     durability [DIRECTORY]    directory for the logs
 */

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "terrace.h"

#define MIB ((size_t)1 << 20)
#define COUNT 1000

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

static terrace_objects *open_store(const char *directory, const char *name, uint32_t durability,
                                   uint32_t flags) {
    char log[4096];
    snprintf(log, sizeof log, "%s/%s", directory, name);
    terrace_objects_options options = {0};
    options.log_dir = log;
    options.durability = durability;
    options.flags = flags;
    terrace_objects *store;
    must(terrace_objects_dram(16 * MIB, &options, &store), "a store with a log");
    return store;
}

static terrace_objects_recovered recovered(const terrace_objects *store) {
    terrace_objects_recovered found;
    must(terrace_objects_get_recovered(store, &found), "recovered");
    return found;
}

/* Counter of messages, which any thread may send. */
struct heard {
    pthread_mutex_t lock;
    unsigned errors;
    char last[512];
};

static void hear(void *context, uint32_t level, const char *target, const char *message) {
    struct heard *heard = context;
    pthread_mutex_lock(&heard->lock);
    if (level == TERRACE_LOG_LEVEL_ERROR) {
        heard->errors++;
        snprintf(heard->last, sizeof heard->last, "%s: %s", target, message);
    }
    pthread_mutex_unlock(&heard->lock);
}

static void use_child(terrace_objects *store) {
    uint64_t id;
    pid_t pid = fork();
    expect(pid >= 0, "there can be a child");
    if (pid == 0) {
        bool refused = terrace_objects_create(store, 8, &id) == TERRACE_STATUS_FORKED &&
                       terrace_objects_sync(store) == TERRACE_STATUS_FORKED &&
                       strstr(terrace_last_error(), "fork") != NULL;
        _exit(refused && terrace_objects_close(store) == TERRACE_STATUS_OK ? 0 : 1);
    }
    int status;
    expect(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "a child is refused, and ends its copy");
}

/* The parent's changes survive when a child closes its copy of the store. */
static void forked(const char *directory) {
    terrace_objects *store =
        open_store(directory, "forked", TERRACE_DURABILITY_SYNCED, TERRACE_OBJECTS_MAINTENANCE);
    uint64_t id;
    for (int i = 0; i < 10; i++) {
        must(terrace_objects_create(store, 100, &id), "create");
    }
    use_child(store);
    for (int i = 0; i < 20; i++) {
        must(terrace_objects_create(store, 100, &id), "create");
    }
    must(terrace_objects_close(store), "close");
    store = open_store(directory, "forked", TERRACE_DURABILITY_SYNCED, 0);
    terrace_objects_stats stats;
    must(terrace_objects_get_stats(store, &stats), "stats");
    terrace_objects_recovered found = recovered(store);
    expect(stats.objects == 30 && found.changes == 30 && found.logs == 1 && found.dump == 0 &&
               found.torn_bytes == 0 && found.damages == 0,
           "everything is there");
    expect(terrace_objects_damage(store, 0) == NULL, "nothing is damaged");
    must(terrace_objects_close(store), "close");
}

static void cut(const char *directory, const char *name, long bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/log-0000000000000001", directory, name);
    FILE *file = fopen(path, "r+");
    expect(file != NULL && fseek(file, 0, SEEK_END) == 0, "there is a log");
    long len = ftell(file);
    expect(len > bytes, "it is long enough");
    if (bytes > 0) {
        expect(ftruncate(fileno(file), len - bytes) == 0, "it can be cut");
    } else {
        /* Flips a bit of a change in the middle. */
        expect(fseek(file, len / 2, SEEK_SET) == 0, "it has a middle");
        int byte = fgetc(file);
        expect(fseek(file, len / 2, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF, "it changes");
    }
    expect(fclose(file) == 0, "it is written");
}

/* The results of recovery can be read. */
static void damaged(const char *directory) {
    uint64_t id;
    terrace_objects *store = open_store(directory, "torn", TERRACE_DURABILITY_WRITTEN, 0);
    must(terrace_objects_create(store, 100, &id), "create");
    must(terrace_objects_close(store), "close");
    cut(directory, "torn", 10);
    store = open_store(directory, "torn", TERRACE_DURABILITY_WRITTEN, 0);
    terrace_objects_recovered found = recovered(store);
    expect(found.torn_bytes > 0 && found.changes == 1 && found.damages == 0, "its end is torn");
    must(terrace_objects_close(store), "close");

    store = open_store(directory, "damaged", TERRACE_DURABILITY_WRITTEN, 0);
    for (int i = 0; i < 100; i++) {
        must(terrace_objects_create_with(store, "some bytes", 10, &id), "create");
    }
    must(terrace_objects_close(store), "close");
    cut(directory, "damaged", 0);
    store = open_store(directory, "damaged", 0, TERRACE_OBJECTS_ACCEPT_DAMAGE);
    found = recovered(store);
    expect(found.changes > 10 && found.changes < 90 && found.damages == 1, "half of it is there");
    const char *text = terrace_objects_damage(store, 0);
    expect(text != NULL && strstr(text, "log-0000000000000001") != NULL, "it says which file");
    expect(terrace_objects_damage(store, 1) == NULL, "there is one");
    must(terrace_objects_close(store), "close");
    expect(terrace_objects_get_recovered(NULL, &found) == TERRACE_STATUS_INVALID &&
               terrace_objects_damage(NULL, 0) == NULL,
           "NULL is answered");
}

/* A file that may not grow: no call waits for the changes, and the close reports their loss. */
static void full(const char *directory) {
    struct heard heard = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct rlimit limit;
    uint64_t id;
    must(terrace_set_log(hear, &heard), "set log");
    terrace_objects *store = open_store(directory, "full", TERRACE_DURABILITY_DEFERRED, 0);
    expect(getrlimit(RLIMIT_FSIZE, &limit) == 0, "there is a limit");
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 8192;
    expect(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &limit) == 0,
           "files may be limited");
    for (int i = 0; i < COUNT; i++) {
        must(terrace_objects_create(store, 32, &id), "create");
        must(terrace_objects_write_at(store, id, 0, "changed", 7), "write at");
    }
    terrace_lock *lock;
    must(terrace_objects_lock(store, id, TERRACE_LOCK_MODE_WRITE, 0, &lock), "lock");
    expect(terrace_objects_close(store) == TERRACE_STATUS_IO, "the close says it");
    expect(strstr(terrace_last_error(), "log") != NULL, "and of what");
    expect(heard.errors == 1 && strstr(heard.last, "terrace_objects") != NULL, "so does a message");
    /* A failure at the last unlock is reported by a message only. */
    terrace_objects_unlock(lock);
    expect(heard.errors == 2, "there is another message");
    must(terrace_set_log(NULL, NULL), "set log");
    limit.rlim_cur = before;
    expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "and not be limited");
    store = open_store(directory, "full", TERRACE_DURABILITY_DEFERRED, 0);
    must(terrace_objects_create(store, 32, &id), "create");
    must(terrace_objects_close(store), "close");
    expect(heard.errors == 2, "no more messages arrive");
}

int main(int argc, char **argv) {
    const char *directory = argc > 1 ? argv[1] : ".";
    forked(directory);
    damaged(directory);
    full(directory);
    printf("a store says what it has lost\n");
    return 0;
}

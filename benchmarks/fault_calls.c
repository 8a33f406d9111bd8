/* Faults of the operating system, for a process that preloads this library and then arms it.

   Calls that make a session durable - write, pwrite, ftruncate, fsync, fdatasync - are counted for the files
   whose path begins with a prefix. From the n-th on they fail, or the process dies there. A power cut loses
   what was written since the last sync: all of it, or each write with probability one half.
   Everything else passes through. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { OFF, KILL_BEFORE, KILL_AFTER, TORN, SHORT, FULL, BROKEN, UNSYNCED, READ_ONLY, POWER, POWER_PART };

struct change {            /* one unsynced write or truncation */
    int file;              /* a descriptor of our own, never closed: closing drops the locks of SQLite */
    ino_t inode;
    off_t place, old_size, new_size;
    size_t old_length, new_length;
    char *old_bytes, *new_bytes;
    struct change *before;
};

static char prefix[4096];
static int mode, recording;
static long nth, calls;
static unsigned chance;
static long back;
static struct change *changes;

void fault_arm(const char *path, int how, long at, unsigned seed) {
    strncpy(prefix, path, sizeof prefix - 1);
    mode = how, nth = at, calls = 0, chance = seed;
    recording |= how == POWER || how == POWER_PART;
}
long fault_calls(void) { return calls; }
void fault_clock(void) { back = 1; }

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static int ours(int file) {
    char link[64], found[4096];
    if (!prefix[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, found, sizeof found - 1);
    if (length < 0) return 0;
    found[length] = 0;
    return strncmp(found, prefix, strlen(prefix)) == 0;
}

static ssize_t raw_write(int file, const void *bytes, size_t length, off_t place) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = next("pwrite64");
    return real(file, bytes, length, place);
}
static int raw_size(int file, off_t size) {
    static int (*real)(int, off64_t);
    if (!real) real = next("ftruncate64");
    return real(file, size);
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* Undo every unsynced change, newest first; then write again those that the cut spared. */
static void power_cut(int part) {
    struct change *one, *after = NULL;
    for (one = changes; one; one = one->before) {
        raw_size(one->file, one->old_size);
        if (one->old_length) raw_write(one->file, one->old_bytes, one->old_length, one->place);
    }
    while (part && changes) one = changes, changes = one->before, one->before = after, after = one;
    for (one = after; one; one = one->before) {
        if (rand_r(&chance) & 1) continue;
        if (one->new_bytes) raw_write(one->file, one->new_bytes, one->new_length, one->place);
        else raw_size(one->file, one->new_size);
    }
    die();
}

static void record(int file, const void *bytes, size_t length, off_t place, off_t new_size) {
    struct stat found;
    struct change *one = calloc(1, sizeof *one), *known = changes;
    fstat(file, &found);
    while (known && known->inode != found.st_ino) known = known->before;
    one->file = known ? known->file : dup(file);
    one->inode = found.st_ino, one->old_size = found.st_size, one->place = place, one->new_size = new_size;
    size_t kept = bytes ? length : found.st_size > place ? (size_t)(found.st_size - place) : 0;
    one->old_bytes = malloc(kept + 1);
    ssize_t got = kept ? pread(file, one->old_bytes, kept, place) : 0;
    one->old_length = got > 0 ? got : 0;
    if (bytes) {
        one->new_bytes = malloc(length + 1), one->new_length = length;
        memcpy(one->new_bytes, bytes, length);
    }
    one->before = changes, changes = one;
}

static void forget(int file) {
    struct stat found;
    struct change **place = &changes;
    fstat(file, &found);
    while (*place)
        if ((*place)->inode == found.st_ino) *place = (*place)->before;
        else place = &(*place)->before;
}

/* Return 0 where a call passes, or the error it fails with; where it is the last, the process dies here. */
static int verdict(int syncing) {
    int due = mode == UNSYNCED && !syncing ? 0 : ++calls >= nth;
    if (!due) return 0;
    if (mode == KILL_BEFORE) die();
    if (mode == POWER || mode == POWER_PART) power_cut(mode == POWER_PART);
    if (mode == FULL || mode == SHORT) return syncing ? 0 : ENOSPC;
    if (mode == BROKEN || mode == UNSYNCED) return EIO;
    return mode == READ_ONLY && !syncing ? EROFS : 0;
}

static ssize_t written(int file, const void *bytes, size_t length, off_t place) {
    int last = calls + 1 == nth, error;
    if (mode == SHORT && last && length > 1) {
        calls++;
        return raw_write(file, bytes, length / 2, place);
    }
    if (mode == TORN && last) {
        raw_write(file, bytes, length / 2, place);
        die();
    }
    if ((error = verdict(0))) { errno = error; return -1; }
    if (recording) record(file, bytes, length, place, 0);
    ssize_t done = raw_write(file, bytes, length, place);
    if (mode == KILL_AFTER && calls >= nth) die();
    return done;
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t place) {
    return mode && ours(file) ? written(file, bytes, length, place) : raw_write(file, bytes, length, place);
}
ssize_t pwrite(int, const void *, size_t, off_t) __attribute__((alias("pwrite64")));
ssize_t write(int file, const void *bytes, size_t length) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = next("write");
    if (!mode || !ours(file)) return real(file, bytes, length);
    off_t place = lseek(file, 0, SEEK_CUR);
    ssize_t done = written(file, bytes, length, place);
    if (done > 0) lseek(file, place + done, SEEK_SET);
    return done;
}

int ftruncate64(int file, off64_t size) {
    int error;
    if (!mode || !ours(file)) return raw_size(file, size);
    if (mode == TORN && calls + 1 == nth) die();
    if ((error = verdict(0))) { errno = error; return -1; }
    if (recording) record(file, NULL, 0, size, size);
    int done = raw_size(file, size);
    if (mode == KILL_AFTER && calls >= nth) die();
    return done;
}
int ftruncate(int, off_t) __attribute__((alias("ftruncate64")));

static int synced(int file, const char *name) {
    int (*real)(int) = next(name), error;
    if (!mode || !ours(file)) return real(file);
    if (mode == TORN && calls + 1 == nth) die();
    if ((error = verdict(1))) { errno = error; return -1; }
    int done = real(file);
    if (!done) forget(file);
    if (mode == KILL_AFTER && calls >= nth) die();
    return done;
}
int fsync(int file) { return synced(file, "fsync"); }
int fdatasync(int file) { return synced(file, "fdatasync"); }

/* The wall clock goes back by an hour each time it is read; the others, which measure waits, do not. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = next("clock_gettime");
    int done = real(clock, now);
    if (back && clock == CLOCK_REALTIME) now->tv_sec -= 3600 * back++;
    return done;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = next("gettimeofday");
    int done = real(now, zone);
    if (back) now->tv_sec -= 3600 * back++;
    return done;
}

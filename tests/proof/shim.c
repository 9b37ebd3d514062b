/* Loaded into a server before the C library (LD_PRELOAD), to know what is on disk and to set its
 * clock:
 *
 * DUEQ_SHIM_SYNCED=<path>: for every fsync and fdatasync of a regular file a line "begun <inode>
 * <ms>" before the call, and after it succeeded "synced <inode> <length> <ms>", where the length is
 * the file's before the call and ms is this machine's clock before it. What was written meanwhile
 * may be on disk or not.
 *
 * DUEQ_SHIM_CLOCK=<path>: two numbers of 8 bytes: a count of ms that is added to the time of day; and
 * unless it is 0 the time of day, ms since 1970, at which the clock stands still. They are read at
 * every call, so the clock can be set while the server runs. Clocks that only measure are let alone.
 *
 * DUEQ_SHIM_SOURCE=<IPv4 address>: connections by IPv4 come from this address.
 *
 * DUEQ_SHIM_LEAK=<bytes>: every connection that is accepted leaves so many bytes of memory, or a descriptor for 0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_connect)(int, const struct sockaddr *, socklen_t);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);
static int synced = -1;
static long leak = -1;
static struct sockaddr_in source; /* its family is 0 where none is asked for */
static const volatile int64_t *offset_ms; /* and behind it where the clock stands */

static void find(void) {
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_connect =
        (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect");
    real_accept4 =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("DUEQ_SHIM_SYNCED");
    find();
    if (path && (synced = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) < 0) {
        perror(path);
        _exit(99);
    }
    if ((path = getenv("DUEQ_SHIM_CLOCK"))) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        void *at = mmap(NULL, 2 * sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
        if (file < 0 || at == MAP_FAILED) {
            perror(path);
            _exit(99);
        }
        close(file);
        offset_ms = at;
    }
    if ((path = getenv("DUEQ_SHIM_LEAK"))) leak = atol(path);
    if ((path = getenv("DUEQ_SHIM_SOURCE"))) {
        if (inet_pton(AF_INET, path, &source.sin_addr) != 1) _exit(99);
        source.sin_family = AF_INET;
    }
}

/* One write, so that the lines of two threads do not mix. */
static void note(const char *line, int length) {
    if (write(synced, line, (size_t)length) != length) {
        perror("DUEQ_SHIM_SYNCED");
        _exit(99);
    }
}

static int sync_and_note(int (*real)(int), int file) {
    struct stat before;
    struct timespec now;
    char line[96];
    if (synced < 0 || fstat(file, &before) != 0 || !S_ISREG(before.st_mode)) return real(file);
    real_clock_gettime(CLOCK_REALTIME, &now);
    long long ms = now.tv_sec * 1000LL + now.tv_nsec / 1000000;
    unsigned long long inode = before.st_ino;
    note(line, snprintf(line, sizeof line, "begun %llu %lld\n", inode, ms));
    int result = real(file);
    if (result == 0) {
        long long length = before.st_size;
        note(line, snprintf(line, sizeof line, "synced %llu %lld %lld\n", inode, length, ms));
    }
    return result;
}

int fsync(int file) { return sync_and_note(real_fsync, file); }

int fdatasync(int file) { return sync_and_note(real_fdatasync, file); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_clock_gettime) find(); /* called before the constructor ran */
    int result = real_clock_gettime(clock, time);
    if (result == 0 && offset_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        if (offset_ms[1]) {
            time->tv_sec = offset_ms[1] / 1000;
            time->tv_nsec = offset_ms[1] % 1000 * 1000000;
            return 0;
        }
        int64_t ns = time->tv_nsec + *offset_ms % 1000 * 1000000;
        time->tv_sec += *offset_ms / 1000;
        if (ns < 0) {
            ns += 1000000000;
            time->tv_sec -= 1;
        } else if (ns >= 1000000000) {
            ns -= 1000000000;
            time->tv_sec += 1;
        }
        time->tv_nsec = ns;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone; /* obsolete, and nobody here passes it */
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *also) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    if (also) *also = now.tv_sec;
    return now.tv_sec;
}

int connect(int file, const struct sockaddr *to, socklen_t length) {
    if (!real_connect) find(); /* called before the constructor ran */
    if (source.sin_family && to->sa_family == AF_INET &&
        bind(file, (const struct sockaddr *)&source, sizeof source) != 0)
        return -1;
    return real_connect(file, to, length);
}

int accept4(int file, struct sockaddr *from, socklen_t *length, int flags) {
    if (!real_accept4) find(); /* called before the constructor ran */
    int accepted = real_accept4(file, from, length, flags);
    if (accepted >= 0 && leak == 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) _exit(99);
    if (accepted >= 0 && leak > 0) {
        static char *volatile kept;
        if (!(kept = malloc((size_t)leak))) _exit(99);
        memset(kept, 1, (size_t)leak);
    }
    return accepted;
}

/* Writes down what a process does to the files below one folder, and ends it when the power is cut.
 *
 * Loaded with LD_PRELOAD. Decides nothing: what is on the disk after the cut is worked out from the record, by
 * power_disk.py. A sync is only recorded, never made: the record is the disk. Until an environment names a folder, every
 * call passes through.
 *
 *   POWER_CUT_ROOT      the folder, absolute, without links in it
 *   POWER_CUT_RECORD    the file the operations are appended to, each after it was done
 *   POWER_CUT_CONTROL   three 64-bit numbers, shared: operations so far, the one at which the power goes, whether it did
 *   POWER_CUT_NOT       the process that only looks on: whoever set this up
 *
 * Writes through a mapping are not seen. SQLite maps its -shm file alone, which it never trusts after a crash.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, UNKNOWN };
enum { MAX_FILES = 65536 };

struct head {
    uint32_t op, first, second, pid;
    uint64_t inode, at;
};

struct control {
    uint64_t done, cut_at, dead;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct control *control;
static char root[PATH_MAX];
static size_t root_length;
static int record = -1, guard = -1;
static uint64_t watched[MAX_FILES]; /* the inode behind a descriptor, if it is one of ours */

#define REAL(result, name, ...)                                                                                        \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (real == NULL)                                                                                                  \
        real = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int plain_open(const char *path, int flags, mode_t mode) {
    REAL(int, "open64", const char *, int, ...);
    return real(path, flags, mode);
}

static ssize_t plain_write(int file, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(file, data, size);
}

static void broken(const char *what) {
    dprintf(2, "power_cut: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static int ready(void) {
    if (control != NULL)
        return 1;
    const char *folder = getenv("POWER_CUT_ROOT"), *file = getenv("POWER_CUT_RECORD");
    const char *shared = getenv("POWER_CUT_CONTROL"), *not = getenv("POWER_CUT_NOT");
    if (folder == NULL || file == NULL || shared == NULL || (not != NULL && atol(not) == getpid()))
        return 0;
    pthread_mutex_lock(&mutex);
    if (control == NULL) {
        strncpy(root, folder, sizeof root - 1);
        root_length = strlen(root);
        record = plain_open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        guard = plain_open(shared, O_RDWR | O_CLOEXEC, 0600);
        void *found = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, guard, 0);
        if (record < 0 || guard < 0 || found == MAP_FAILED)
            broken("what the environment names cannot be opened");
        control = found;
    }
    pthread_mutex_unlock(&mutex);
    return 1;
}

/* One operation at a time, over all threads and processes: the record is in the order in which things were done. */
static void enter(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    pthread_mutex_lock(&mutex);
    while (fcntl(guard, F_SETLKW, &lock) < 0)
        if (errno != EINTR)
            broken("lock");
    if (++control->done == control->cut_at)
        control->dead = 1;
    if (control->dead)
        for (;;)
            kill(getpid(), SIGKILL);
}

static void leave(void) {
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int kept = errno;
    fcntl(guard, F_SETLK, &lock);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static void note(uint32_t op, uint64_t inode, uint64_t at, const void *first, size_t n, const void *second, size_t m) {
    struct head head = {.op = op, .first = n, .second = m, .pid = getpid(), .inode = inode, .at = at};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)first, n}, {(void *)second, m}};
    int kept = errno;
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (real(record, parts, 3) != (ssize_t)(sizeof head + n + m))
        broken("record");
    errno = kept;
}

/* Returns the path below the root, or NULL for a file that is none of ours. */
static const char *ours(int folder, const char *path, char *room) {
    if (path == NULL || !ready())
        return NULL;
    if (path[0] == '/') {
        snprintf(room, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX / 2];
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0)
            return NULL;
        base[length] = 0;
        snprintf(room, PATH_MAX, "%s/%s", base, path);
    }
    if (strncmp(room, root, root_length) != 0 || (room[root_length] != '/' && room[root_length] != 0))
        return NULL;
    return room + root_length + (room[root_length] == '/');
}

static uint64_t inode_of(int file) {
    struct stat found;
    if (file < 0 || file >= MAX_FILES || watched[file] == 0 || fstat(file, &found) < 0)
        return 0;
    int same = found.st_ino == watched[file] && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode));
    return same ? watched[file] : (watched[file] = 0); /* the number went to another file, or to a socket */
}

static int opened(int folder, const char *path, int flags, mode_t mode, int (*open_it)(int, const char *, int, mode_t)) {
    char room[PATH_MAX];
    const char *name = ours(folder, path, room);
    if (name == NULL)
        return open_it(folder, path, flags, mode);
    struct stat found;
    int changes = flags & (O_CREAT | O_TRUNC);
    if (changes)
        enter();
    int was_there = fstatat(folder, path, &found, 0) == 0;
    int file = open_it(folder, path, flags, mode);
    if (file >= 0 && file < MAX_FILES && fstat(file, &found) == 0) {
        watched[file] = found.st_ino;
        if (!was_there && (flags & O_CREAT))
            note(CREATE, found.st_ino, 0, name, strlen(name), NULL, 0);
        else if (flags & O_TRUNC)
            note(TRUNCATE, found.st_ino, 0, NULL, 0, NULL, 0);
    }
    if (changes)
        leave();
    return file;
}

static int real_open(int folder, const char *path, int flags, mode_t mode) {
    (void)folder;
    return plain_open(path, flags, mode);
}

static int real_openat(int folder, const char *path, int flags, mode_t mode) {
    REAL(int, "openat64", int, const char *, int, ...);
    return real(folder, path, flags, mode);
}

static mode_t mode_in(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_in(flags, rest);
    va_end(rest);
    return opened(AT_FDCWD, path, flags, mode, real_open);
}

int openat64(int folder, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_in(flags, rest);
    va_end(rest);
    return opened(folder, path, flags, mode, real_openat);
}

int open(const char *path, int flags, ...) __attribute__((alias("open64")));
int openat(int folder, const char *path, int flags, ...) __attribute__((alias("openat64")));

static ssize_t written(int file, const void *data, size_t size, off_t at, int placed) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    uint64_t inode = inode_of(file);
    if (inode == 0)
        return placed ? real(file, data, size, at) : plain_write(file, data, size);
    enter();
    if (!placed)
        at = lseek(file, 0, fcntl(file, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    ssize_t done = placed ? real(file, data, size, at) : plain_write(file, data, size);
    if (done > 0)
        note(WRITE, inode, at, data, done, NULL, 0);
    leave();
    return done;
}

ssize_t write(int file, const void *data, size_t size) { return written(file, data, size, 0, 0); }
ssize_t pwrite64(int file, const void *data, size_t size, off_t at) { return written(file, data, size, at, 1); }
ssize_t pwrite(int file, const void *data, size_t size, off_t at) __attribute__((alias("pwrite64")));

int ftruncate64(int file, off_t size) {
    REAL(int, "ftruncate64", int, off_t);
    uint64_t inode = inode_of(file);
    if (inode == 0)
        return real(file, size);
    enter();
    int result = real(file, size);
    if (result == 0)
        note(TRUNCATE, inode, size, NULL, 0, NULL, 0);
    leave();
    return result;
}

int ftruncate(int file, off_t size) __attribute__((alias("ftruncate64")));

static int synced(int file, int (*real)(int)) {
    uint64_t inode = inode_of(file);
    if (inode == 0)
        return real(file);
    enter();
    note(SYNC, inode, 0, NULL, 0, NULL, 0);
    leave();
    return 0;
}

int fsync(int file) {
    REAL(int, "fsync", int);
    return synced(file, real);
}

int fdatasync(int file) {
    REAL(int, "fdatasync", int);
    return synced(file, real);
}

static int moved(int from, const char *old, int to, const char *new) {
    char room[PATH_MAX], other[PATH_MAX];
    const char *first = ours(from, old, room), *second = ours(to, new, other);
    REAL(int, "renameat", int, const char *, int, const char *);
    if (first == NULL && second == NULL)
        return real(from, old, to, new);
    enter();
    int result = real(from, old, to, new);
    if (result == 0 && first != NULL && second != NULL)
        note(RENAME, 0, 0, first, strlen(first), second, strlen(second));
    else if (result == 0)
        note(UNKNOWN, 0, 0, "rename over the edge", 20, NULL, 0);
    leave();
    return result;
}

int rename(const char *old, const char *new) { return moved(AT_FDCWD, old, AT_FDCWD, new); }
int renameat(int from, const char *old, int to, const char *new) { return moved(from, old, to, new); }

static int removed(int folder, const char *path, int flags) {
    char room[PATH_MAX];
    const char *name = ours(folder, path, room);
    REAL(int, "unlinkat", int, const char *, int);
    if (name == NULL)
        return real(folder, path, flags);
    enter();
    int result = real(folder, path, flags);
    if (result == 0)
        note(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, name, strlen(name), NULL, 0);
    leave();
    return result;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }

static int made(int folder, const char *path, mode_t mode) {
    char room[PATH_MAX];
    const char *name = ours(folder, path, room);
    REAL(int, "mkdirat", int, const char *, mode_t);
    if (name == NULL)
        return real(folder, path, mode);
    struct stat found;
    enter();
    int result = real(folder, path, mode);
    if (result == 0 && fstatat(folder, path, &found, 0) == 0)
        note(MKDIR, found.st_ino, 0, name, strlen(name), NULL, 0);
    leave();
    return result;
}

int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return made(folder, path, mode); }

/* What nothing of ours uses, and what would make the record wrong without a word. */
static void unknown(int file, const char *name) {
    if (inode_of(file) != 0) {
        enter();
        note(UNKNOWN, 0, 0, name, strlen(name), NULL, 0);
        leave();
    }
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    unknown(file, "writev");
    return real(file, parts, count);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t size, unsigned flags) {
    REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
    unknown(to, "copy_file_range");
    return real(from, at, to, there, size, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
    unknown(to, "sendfile");
    return real(to, from, at, size);
}

int posix_fallocate64(int file, off64_t at, off64_t size) {
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    unknown(file, "posix_fallocate");
    return real(file, at, size);
}

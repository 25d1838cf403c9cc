/* Makes system calls on files below one directory fail, be cut short or be slow; and moves the wall clock.

   Loaded with LD_PRELOAD, so that every library of the process is met, RocksDB included. What it does is said by a
   shared file (FAULTS_CONTROL, struct control below, also in injector.py) that another process may change at any
   moment; FAULTS_BELOW is the directory. Only calls that go through the C library are seen, which is all of them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE, PWRITE, FSYNC, FDATASYNC, OPEN, RENAME, FTRUNCATE, FALLOCATE, MKDIR, LINK, UNLINK, MMAP, READ, KINDS };

struct control {
  uint64_t armed;     /* faults happen only while it is not 0 */
  uint64_t kinds;     /* a bit for each kind that may fail */
  uint64_t error;     /* errno, or 0: none */
  uint64_t halve;     /* the first write that is hit is cut to half instead, without an error */
  uint64_t lie;       /* an fsync that is hit does nothing, and says that it did */
  uint64_t first;     /* the number of the matching call, from 1, that is hit first */
  uint64_t last;      /* and last */
  uint64_t delay;     /* microseconds that a hit takes longer */
  int64_t clock;      /* nanoseconds added to the wall clock */
  char only[64];      /* a part of the path, or nothing */
  uint64_t matched;   /* calls that matched while armed */
  uint64_t hit;       /* of these, those that failed, were cut or delayed */
  uint64_t calls[KINDS]; /* all calls below the directory */
};

static struct control *control;
static char below[PATH_MAX];
static size_t below_length;

#define REAL(name) ((__typeof__(&name))real(&real_##name, #name))
#define DECLARE(name) static void *real_##name;

static void *real(void **kept, const char *name) {
  if (!*kept) *kept = dlsym(RTLD_NEXT, name);
  return *kept;
}

DECLARE(open) DECLARE(mmap) DECLARE(write) DECLARE(pwrite) DECLARE(writev) DECLARE(pwritev) DECLARE(fsync)
DECLARE(fdatasync) DECLARE(sync_file_range) DECLARE(openat) DECLARE(fopen) DECLARE(rename)
DECLARE(renameat) DECLARE(renameat2) DECLARE(ftruncate) DECLARE(truncate) DECLARE(fallocate) DECLARE(posix_fallocate)
DECLARE(mkdir) DECLARE(mkdirat) DECLARE(link) DECLARE(linkat) DECLARE(unlink) DECLARE(unlinkat) DECLARE(read)
DECLARE(pread) DECLARE(clock_gettime) DECLARE(gettimeofday) DECLARE(time)

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("FAULTS_CONTROL"), *directory = getenv("FAULTS_BELOW");
  if (!file || !directory) return;
  snprintf(below, sizeof below, "%s/", directory);
  below_length = strlen(below);
  int fd = REAL(open)(file, O_RDWR | O_CLOEXEC);
  void *found = fd < 0 ? MAP_FAILED : REAL(mmap)(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (found == MAP_FAILED) {
    fprintf(stderr, "injector: cannot map %s\n", file);
    _exit(99);
  }
  close(fd);
  control = found;
}

/* Whether the call is hit; the error is in errno then, or 0 for a write that is to be cut and for an fsync that lies. */
static int hit(enum kind kind, const char *path) {
  if (strncmp(path, below, below_length) && strncmp(path, below, below_length - 1)) return 0;
  if (path[below_length - 1] != '/' && path[below_length - 1] != 0) return 0;
  __atomic_add_fetch(&control->calls[kind], 1, __ATOMIC_RELAXED);
  if (!__atomic_load_n(&control->armed, __ATOMIC_ACQUIRE) || !(control->kinds >> kind & 1)) return 0;
  if (control->only[0] && !strstr(path, control->only)) return 0;
  uint64_t number = __atomic_add_fetch(&control->matched, 1, __ATOMIC_RELAXED);
  if (number < control->first || number > control->last) return 0;
  __atomic_add_fetch(&control->hit, 1, __ATOMIC_RELAXED);
  if (control->delay) {
    struct timespec wait = {control->delay / 1000000, control->delay % 1000000 * 1000};
    nanosleep(&wait, NULL);
  }
  if (control->halve && number == control->first) {
    errno = 0;
    return kind == WRITE || kind == PWRITE;
  }
  errno = (int)control->error;
  return errno != 0 || control->lie;
}

static int hit_fd(enum kind kind, int fd) {
  char link[40], path[PATH_MAX];
  if (!control || fd < 0) return 0;
  int before = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length > 0) {
    path[length] = 0;
    if (hit(kind, path)) return 1;
  }
  errno = before;
  return 0;
}

static int hit_at(enum kind kind, int directory, const char *name) {
  char link[40], path[2 * PATH_MAX];
  if (!control || !name) return 0;
  int before = errno;
  size_t length = 0;
  if (name[0] != '/') {
    ssize_t found;
    if (directory == AT_FDCWD) found = readlink("/proc/self/cwd", path, PATH_MAX);
    else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
      found = readlink(link, path, PATH_MAX);
    }
    if (found < 0) {
      errno = before;
      return 0;
    }
    length = (size_t)found;
    path[length++] = '/';
  }
  snprintf(path + length, sizeof path - length, "%s", name);
  if (hit(kind, path)) return 1;
  errno = before;
  return 0;
}

static size_t half(size_t count) { return count > 1 ? count / 2 : count; }

ssize_t write(int fd, const void *data, size_t count) {
  if (hit_fd(WRITE, fd)) {
    if (errno) return -1;
    count = half(count);
  }
  return REAL(write)(fd, data, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (hit_fd(WRITE, fd)) {
    if (errno) return -1;
    count = (int)half((size_t)count);
  }
  return REAL(writev)(fd, parts, count);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t at) {
  if (hit_fd(PWRITE, fd)) {
    if (errno) return -1;
    count = half(count);
  }
  return REAL(pwrite)(fd, data, count, at);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off_t at) { return pwrite(fd, data, count, at); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
  if (hit_fd(PWRITE, fd)) {
    if (errno) return -1;
    count = (int)half((size_t)count);
  }
  return REAL(pwritev)(fd, parts, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

ssize_t read(int fd, void *data, size_t count) { return hit_fd(READ, fd) ? -1 : REAL(read)(fd, data, count); }
ssize_t pread(int fd, void *data, size_t count, off_t at) {
  return hit_fd(READ, fd) ? -1 : REAL(pread)(fd, data, count, at);
}
ssize_t pread64(int fd, void *data, size_t count, off_t at) { return pread(fd, data, count, at); }

static int spoilt(void) { return errno ? -1 : 0; }

int fsync(int fd) { return hit_fd(FSYNC, fd) ? spoilt() : REAL(fsync)(fd); }
int fdatasync(int fd) { return hit_fd(FDATASYNC, fd) ? spoilt() : REAL(fdatasync)(fd); }
int sync_file_range(int fd, off_t at, off_t count, unsigned flags) {
  return hit_fd(FDATASYNC, fd) ? spoilt() : REAL(sync_file_range)(fd, at, count, flags);
}

/* A file system that is full or read-only does not mind files that are only read. */
static int hit_open(int directory, const char *name, int flags) {
  int changes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT;
  if (control && !changes && (control->error == ENOSPC || control->error == EDQUOT || control->error == EROFS)) return 0;
  return hit_at(OPEN, directory, name);
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPENS(name)                                                                                                   \
  int name(const char *path, int flags, ...) {                                                                        \
    va_list rest;                                                                                                     \
    va_start(rest, flags);                                                                                            \
    mode_t mode = mode_of(flags, rest);                                                                               \
    va_end(rest);                                                                                                     \
    return hit_open(AT_FDCWD, path, flags) ? -1 : REAL(open)(path, flags, mode);                                      \
  }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                                                \
  int name(int directory, const char *path, int flags, ...) {                                                         \
    va_list rest;                                                                                                     \
    va_start(rest, flags);                                                                                            \
    mode_t mode = mode_of(flags, rest);                                                                               \
    va_end(rest);                                                                                                     \
    return hit_open(directory, path, flags) ? -1 : REAL(openat)(directory, path, flags, mode);                        \
  }
OPENS_AT(openat)
OPENS_AT(openat64)

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

FILE *fopen(const char *path, const char *mode) {
  int flags = strpbrk(mode, "wa+") ? O_CREAT | O_RDWR : O_RDONLY;
  return hit_open(AT_FDCWD, path, flags) ? NULL : REAL(fopen)(path, mode);
}
FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }

int rename(const char *from, const char *to) { return hit_at(RENAME, AT_FDCWD, to) ? -1 : REAL(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
  return hit_at(RENAME, b, to) ? -1 : REAL(renameat)(a, from, b, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
  return hit_at(RENAME, b, to) ? -1 : REAL(renameat2)(a, from, b, to, flags);
}

int ftruncate(int fd, off_t size) { return hit_fd(FTRUNCATE, fd) ? -1 : REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int truncate(const char *path, off_t size) {
  return hit_at(FTRUNCATE, AT_FDCWD, path) ? -1 : REAL(truncate)(path, size);
}
int truncate64(const char *path, off_t size) { return truncate(path, size); }

int fallocate(int fd, int mode, off_t at, off_t size) {
  return hit_fd(FALLOCATE, fd) ? -1 : REAL(fallocate)(fd, mode, at, size);
}
int fallocate64(int fd, int mode, off_t at, off_t size) { return fallocate(fd, mode, at, size); }
int posix_fallocate(int fd, off_t at, off_t size) {
  return hit_fd(FALLOCATE, fd) ? errno : REAL(posix_fallocate)(fd, at, size);
}
int posix_fallocate64(int fd, off_t at, off_t size) { return posix_fallocate(fd, at, size); }

int mkdir(const char *path, mode_t mode) { return hit_at(MKDIR, AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int mkdirat(int directory, const char *path, mode_t mode) {
  return hit_at(MKDIR, directory, path) ? -1 : REAL(mkdirat)(directory, path, mode);
}

int link(const char *from, const char *to) { return hit_at(LINK, AT_FDCWD, to) ? -1 : REAL(link)(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) {
  return hit_at(LINK, b, to) ? -1 : REAL(linkat)(a, from, b, to, flags);
}

int unlink(const char *path) { return hit_at(UNLINK, AT_FDCWD, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int directory, const char *path, int flags) {
  return hit_at(UNLINK, directory, path) ? -1 : REAL(unlinkat)(directory, path, flags);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t at) {
  return hit_fd(MMAP, fd) ? MAP_FAILED : REAL(mmap)(address, length, protection, flags, fd, at);
}
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t at) {
  return mmap(address, length, protection, flags, fd, at);
}

/* -- the wall clock ----------------------------------------------------------------------------------------------- */

static int64_t added(void) { return control ? __atomic_load_n(&control->clock, __ATOMIC_RELAXED) : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = REAL(clock_gettime)(clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t all = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + added();
    now->tv_sec = all / 1000000000;
    now->tv_nsec = all % 1000000000;
  }
  return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
  int failed = REAL(gettimeofday)(now, zone);
  if (!failed) now->tv_sec += added() / 1000000000;
  return failed;
}

time_t time(time_t *kept) {
  time_t now = REAL(time)(NULL) + added() / 1000000000;
  if (kept) *kept = now;
  return now;
}

/* Writes down what of each file is durable, in the file that SYNCED_LOG names, a line each:

     NUMBER SIZE synced   an fsync, fdatasync or syncfs succeeded: the number of the file, and its size before the call
     NUMBER SIZE cut      the file was cut to SIZE; one that is about to lose its last name, to 0: another file may get
                          its number

   Loaded with LD_PRELOAD, so that every library of the process is met, RocksDB included. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int log_fd = -1;
static __thread struct stat *found; /* what a walk comes to */
static __thread size_t count, room;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("SYNCED_LOG");
  if (file) log_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(const struct stat *file, off_t size, const char *what) {
  int kept = errno;
  char line[64];
  int length =
      snprintf(line, sizeof line, "%llu %lld %s\n", (unsigned long long)file->st_ino, (long long)size, what);
  if (write(log_fd, line, (size_t)length) != length) abort(); /* a log that lacks a line says nothing */
  errno = kept;
}

static int synced(int (*real)(int), int fd) {
  struct stat before;
  int known = log_fd >= 0 && fstat(fd, &before) == 0;
  int failed = real(fd);
  if (known && !failed) note(&before, before.st_size, "synced");
  return failed;
}

int fsync(int fd) { return synced(REAL(fsync), fd); }
int fdatasync(int fd) { return synced(REAL(fdatasync), fd); }

static int take(const char *path, const struct stat *file, int kind, struct FTW *at) {
  (void)path, (void)at;
  if (kind != FTW_F) return 0;
  if (count == room) {
    room = room ? 2 * room : 256;
    found = realloc(found, room * sizeof *found);
    if (!found) abort();
  }
  found[count++] = *file;
  return 0;
}

/* Of the whole file system; what is below the directory that is named counts. */
int syncfs(int fd) {
  char name[32], top[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = log_fd < 0 ? -1 : readlink(name, top, sizeof top - 1);
  count = 0;
  if (length > 0) {
    top[length] = 0;
    nftw(top, take, 16, FTW_PHYS);
  }
  int failed = REAL(syncfs)(fd);
  for (size_t each = 0; each < count && !failed; each++) note(&found[each], found[each].st_size, "synced");
  return failed;
}

static int cut(int (*real)(int, off_t), int fd, off_t size) {
  struct stat file;
  int failed = real(fd, size);
  if (!failed && log_fd >= 0 && fstat(fd, &file) == 0) note(&file, size, "cut");
  return failed;
}

int ftruncate(int fd, off_t size) { return cut(REAL(ftruncate), fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(REAL(ftruncate64), fd, size); } /* off_t is as long here */

static void leaves(int directory, const char *name) {
  struct stat file;
  if (log_fd < 0) return;
  int kept = errno;
  if (fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1)
    note(&file, 0, "cut");
  errno = kept;
}

int unlink(const char *name) {
  leaves(AT_FDCWD, name);
  return REAL(unlink)(name);
}

int unlinkat(int directory, const char *name, int flags) {
  leaves(directory, name);
  return REAL(unlinkat)(directory, name, flags);
}

int rename(const char *from, const char *to) {
  struct stat old, new;
  if (lstat(from, &old) == 0 && (lstat(to, &new) != 0 || old.st_ino != new.st_ino)) leaves(AT_FDCWD, to);
  return REAL(rename)(from, to);
}

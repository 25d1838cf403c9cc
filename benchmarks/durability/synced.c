/* Writes down what of each file is durable: at each fsync and fdatasync that succeeds, the number of the file and its
   size before the call, one line each, in the file that SYNCED_LOG names.

   Loaded with LD_PRELOAD, so that every library of the process is met, RocksDB included. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int log_fd = -1;

__attribute__((constructor)) static void begin(void) {
  const char *file = getenv("SYNCED_LOG");
  if (file) log_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static int synced(const char *name, int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  struct stat before;
  int known = log_fd >= 0 && fstat(fd, &before) == 0;
  int failed = real(fd);
  if (known && !failed) {
    int kept = errno;
    char line[64];
    int length = snprintf(line, sizeof line, "%llu %lld\n", (unsigned long long)before.st_ino, (long long)before.st_size);
    if (write(log_fd, line, (size_t)length) != length) abort(); /* a log that lacks a line says nothing */
    errno = kept;
  }
  return failed;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }

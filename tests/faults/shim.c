/* Faults at system calls that touch a folder: preloaded into the Python that writes there.

   faults_arm(folder, n, what, error) lets the n-th call from now on go wrong; calls are counted if
   they name a path in the folder or a file of it that is open. faults_count() gives their number
   since, and faults_fired() the name of the call that went wrong.
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { COUNT, FAIL, SHORT, KILL, FULL };

#define MOST 4096
static char folder[4096];
static size_t length;
static long count, goal;
static int what, error_number;
static const char *fired;
static char watched[MOST];

void faults_arm(const char *path, long n, int kind, int number) {
  strncpy(folder, path, sizeof folder - 1);
  length = strlen(folder);
  count = 0;
  fired = NULL;
  goal = n;
  what = kind;
  error_number = number;
}
void faults_disarm(void) { length = 0; }
long faults_count(void) { return count; }
const char *faults_fired(void) { return fired ? fired : ""; }

static int is_inside(const char *path) {
  return length && path && strncmp(path, folder, length) == 0;
}
static int is_watched(int fd) { return length && fd >= 0 && fd < MOST && watched[fd]; }
static int watch(int fd, const char *path) {
  if (fd >= 0 && fd < MOST) watched[fd] = (char)is_inside(path);
  return fd;
}

/* Whether this call fails. `grows` says that it needs room on the disk. */
static int fails(const char *name, int grows) {
  ++count;
  if (what == FULL ? !(grows && count >= goal) : count != goal) return 0;
  if (what == COUNT || what == SHORT) return 0;
  fired = name;
  if (what == KILL) kill(getpid(), SIGKILL);
  errno = error_number;
  return 1;
}
static int is_short(const char *name) {
  if (what != SHORT || count != goal) return 0;
  fired = name;
  return 1;
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define OPEN(symbol) \
  int symbol(const char *path, int flags, ...) { \
    REAL(int, #symbol, const char *, int, ...); \
    va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
    if (is_inside(path) && fails("open", flags & O_CREAT)) return -1; \
    return watch(real(path, flags, mode), path); \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(symbol) \
  int symbol(int at, const char *path, int flags, ...) { \
    REAL(int, #symbol, int, const char *, int, ...); \
    va_list list; va_start(list, flags); mode_t mode = va_arg(list, mode_t); va_end(list); \
    int inside = is_inside(path) || is_watched(at); \
    if (inside && fails("openat", flags & O_CREAT)) return -1; \
    int fd = real(at, path, flags, mode); \
    if (fd >= 0 && fd < MOST) watched[fd] = (char)inside; \
    return fd; \
  }
OPENAT(openat)
OPENAT(openat64)

#define WRITE(symbol, declared, passed) \
  ssize_t symbol declared { \
    REAL(ssize_t, #symbol, DECLARED_##symbol); \
    if (is_watched(fd)) { \
      if (fails("write", 1)) return -1; \
      if (size > 1 && is_short("write")) size /= 2; \
    } \
    return real passed; \
  }
#define DECLARED_write int, const void *, size_t
#define DECLARED_pwrite int, const void *, size_t, off_t
#define DECLARED_pwrite64 int, const void *, size_t, off_t
WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITE(pwrite64, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))

#define ON_FILE(type, symbol, grows, types, declared, passed) \
  type symbol declared { \
    REAL(type, #symbol, types); \
    if (is_watched(fd) && fails(#symbol, grows)) return -1; \
    return real passed; \
  }
#define COMMA ,
ON_FILE(int, fsync, 0, int, (int fd), (fd))
ON_FILE(int, fdatasync, 0, int, (int fd), (fd))
ON_FILE(int, ftruncate, 0, int COMMA off_t, (int fd, off_t size), (fd, size))
ON_FILE(int, ftruncate64, 0, int COMMA off_t, (int fd, off_t size), (fd, size))
ON_FILE(int, fallocate, 1, int COMMA int COMMA off_t COMMA off_t,
        (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
ON_FILE(int, fchmod, 0, int COMMA mode_t, (int fd, mode_t mode), (fd, mode))
ON_FILE(int, fchown, 0, int COMMA uid_t COMMA gid_t, (int fd, uid_t u, gid_t g), (fd, u, g))
ON_FILE(int, flock, 0, int COMMA int, (int fd, int how), (fd, how))
ON_FILE(int, fstat, 0, int COMMA struct stat *, (int fd, struct stat *found), (fd, found))
ON_FILE(int, fstat64, 0, int COMMA struct stat64 *, (int fd, struct stat64 *found), (fd, found))
ON_FILE(ssize_t, pread, 0, int COMMA void * COMMA size_t COMMA off_t,
        (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
ON_FILE(int, fsetxattr, 1, int COMMA const char * COMMA const void * COMMA size_t COMMA int,
        (int fd, const char *name, const void *value, size_t size, int flags),
        (fd, name, value, size, flags))

int close(int fd) {
  REAL(int, "close", int);
  int inside = is_watched(fd);
  if (fd >= 0 && fd < MOST) watched[fd] = 0;
  int result = real(fd);
  /* Linux has closed it whatever it says. */
  if (inside && fails("close", 0)) return -1;
  return result;
}
static int duplicated(int fd, int made) {
  if (made >= 0 && made < MOST) watched[made] = (char)is_watched(fd);
  return made;
}
int dup(int fd) {
  REAL(int, "dup", int);
  if (is_watched(fd) && fails("dup", 0)) return -1;
  return duplicated(fd, real(fd));
}

#define ON_PATH(type, symbol, grows, types, declared, passed) \
  type symbol declared { \
    REAL(type, #symbol, types); \
    if (is_inside(path) && fails(#symbol, grows)) return (type)-1; \
    return real passed; \
  }
ON_PATH(int, unlink, 0, const char *, (const char *path), (path))
ON_PATH(int, rmdir, 0, const char *, (const char *path), (path))
ON_PATH(int, mkdir, 1, const char * COMMA mode_t, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, chmod, 0, const char * COMMA mode_t, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, rename, 1, const char * COMMA const char *, (const char *path, const char *to), (path, to))
ON_PATH(int, link, 1, const char * COMMA const char *, (const char *path, const char *to), (path, to))
ON_PATH(int, stat, 0, const char * COMMA struct stat *, (const char *path, struct stat *found), (path, found))
ON_PATH(int, stat64, 0, const char * COMMA struct stat64 *, (const char *path, struct stat64 *found), (path, found))
ON_PATH(int, lstat, 0, const char * COMMA struct stat *, (const char *path, struct stat *found), (path, found))
ON_PATH(int, lstat64, 0, const char * COMMA struct stat64 *, (const char *path, struct stat64 *found), (path, found))
ON_PATH(ssize_t, listxattr, 0, const char * COMMA char * COMMA size_t,
        (const char *path, char *list, size_t size), (path, list, size))
DIR *opendir(const char *path) {
  REAL(DIR *, "opendir", const char *);
  return is_inside(path) && fails("opendir", 0) ? NULL : real(path);
}
int renameat2(int from, const char *path, int to, const char *other, unsigned flags) {
  REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
  return is_inside(path) && fails("renameat2", 1) ? -1 : real(from, path, to, other, flags);
}
int unlinkat(int at, const char *path, int flags) {
  REAL(int, "unlinkat", int, const char *, int);
  return (is_inside(path) || is_watched(at)) && fails("unlinkat", 0) ? -1 : real(at, path, flags);
}

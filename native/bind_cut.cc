// Files that another program cuts while they are mapped.
//
// Whoever touches a byte behind the new end gets the signal SIGBUS, which ends the process. A program
// that owns its process can watch for it: the page that is gone is replaced by zeros, so that whoever
// reads goes on, and Python's handler of the signal is called, in the main thread and as soon as it
// can, to say that what was read is worth nothing.
#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#endif

#include <atomic>
#include <cerrno>

#include "python.h"

namespace ferry::python {

namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "used in a signal handler");
std::atomic<std::uint64_t> replaced{0};

// Number of pages that were replaced since the process started.
std::uint64_t pages() noexcept { return replaced.load(); }

#if !defined(_WIN32)

std::uintptr_t page_size = 0;
struct sigaction before;
bool watching = false;

bool replace_page(void* address) noexcept {
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(address) & ~(page_size - 1);
  void* const page = reinterpret_cast<void*>(start);
  return mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
         page;
}

// Nothing here may allocate or lock. When it returns, the instruction that failed runs again.
void on_signal(int number, siginfo_t* info, void*) noexcept {
  const int error = errno;
  if (info->si_code == BUS_ADRERR && replace_page(info->si_addr)) {
    replaced.fetch_add(1);
    PyErr_SetInterruptEx(number);
  } else {
    std::signal(number, SIG_DFL);  // something else: as if nobody watched
  }
  errno = error;
}

// False where a mapped file cannot be cut.
bool watch() noexcept {
  const long size = sysconf(_SC_PAGESIZE);
  if (size <= 0) return false;
  page_size = static_cast<std::uintptr_t>(size);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  struct sigaction found;
  if (sigaction(SIGBUS, &action, &found) != 0) return false;
  if (!watching) before = found;
  watching = true;
  return true;
}

// The signal means again what it meant before `watch`.
void unwatch() noexcept {
  if (watching) sigaction(SIGBUS, &before, nullptr);
  watching = false;
}

#else

bool watch() noexcept { return false; }
void unwatch() noexcept {}

#endif

}  // namespace

void bind_cut(nb::module_& module) {
  module.def("watch_cuts", watch,
             "Turns SIGBUS of cut files into a call of Python's handler; False without such a signal.");
  module.def("unwatch_cuts", unwatch, "Gives the signal back.");
  module.def("cut_pages", pages, "Number of pages that files had lost when they were read.");
}

}  // namespace ferry::python

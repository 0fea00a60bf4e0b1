// Files: a small one is read whole by one call, because the calls of Python around each of the system's
// take longer than the reading; and room on the disk and the exchange of names, for which Python has no calls.
#if !defined(_WIN32)
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <unistd.h>

#include <optional>
#endif

#include <cerrno>
#include <string>

#include "python.h"

namespace ferry::python {

namespace {

#if !defined(_WIN32)

// An open file, closed with this.
struct Descriptor {
  explicit Descriptor(const char* path) : number(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number;
};

bool is_small(const struct stat& found, std::uint64_t most) {
  return S_ISREG(found.st_mode) && found.st_size > 0 && static_cast<std::uint64_t>(found.st_size) <= most;
}

std::int64_t modified(const struct stat& found) {
#if defined(__APPLE__)
  const struct timespec& time = found.st_mtimespec;
#else
  const struct timespec& time = found.st_mtim;
#endif
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

bool read_all(int descriptor, std::uint8_t* target, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(descriptor, target + done, size - done, static_cast<off_t>(done));
    if (count == 0 || (count < 0 && errno != EINTR)) return false;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return true;
}

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_size == other.st_size &&
         modified(one) == modified(other);
}

// A path as the system takes it; nothing if no file can have such a name.
nb::object encoded(nb::str path) {
  PyObject* made = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &made) == 0) PyErr_Clear();
  return nb::steal(made);
}

// Reads the first file and opens the second one, of which `other` then tells; false unless the first has
// its name then.
bool read_pair(const char* first, const char* second, std::uint64_t most, std::string& content,
               std::optional<Descriptor>& data, struct stat& other) {
  struct stat found;
  // Looked at before they are opened: a pipe would notice that, and wait.
  if (stat(first, &found) != 0 || !is_small(found, most)) return false;
  if (stat(second, &other) != 0 || !S_ISREG(other.st_mode)) return false;
  const Descriptor file(first);
  if (file.number < 0 || fstat(file.number, &found) != 0 || !is_small(found, most)) return false;
  content.resize(static_cast<std::size_t>(found.st_size));
  if (!read_all(file.number, reinterpret_cast<std::uint8_t*>(content.data()), content.size())) return false;
  data.emplace(second);
  if (data->number < 0 || fstat(data->number, &other) != 0 || !S_ISREG(other.st_mode)) return false;
  // The first file is still open, so no new file can have its number.
  struct stat now;
  return stat(first, &now) == 0 && is_same(found, now);
}

// A new bytearray of a class that has all bytes of an open file, and the file's identity; nothing if the
// file ends early.
nb::object read_whole(const Descriptor& file, const struct stat& found, nb::handle memory) {
  const nb::object whole = call(memory, checked(PyLong_FromLongLong(found.st_size)));
  if (PyByteArray_Check(whole.ptr()) == 0) throw nb::type_error("the memory is no bytearray");
  if (PyByteArray_Size(whole.ptr()) != found.st_size) throw nb::value_error("a memory of another size");
  auto* const target = reinterpret_cast<std::uint8_t*>(PyByteArray_AsString(whole.ptr()));
  bool is_whole = false;
  {
    const Unlocked unlocked;  // nobody else has the memory yet
    is_whole = read_all(file.number, target, static_cast<std::size_t>(found.st_size));
  }
  if (!is_whole) return nb::none();
  return nb::make_tuple(whole, nb::make_tuple(static_cast<std::uint64_t>(found.st_ino),
                                              static_cast<std::int64_t>(found.st_size), modified(found)));
}

nb::object open_pair(nb::str first, nb::str second, std::uint64_t most, std::uint64_t small,
                     nb::handle memory) {
  const nb::object one = encoded(first), other = encoded(second);
  if (!one.is_valid() || !other.is_valid()) return nb::none();
  std::string content;
  std::optional<Descriptor> data;
  struct stat found;
  bool is_there = false;
  {
    const Unlocked unlocked;
    is_there = read_pair(PyBytes_AsString(one.ptr()), PyBytes_AsString(other.ptr()), most, content, data, found);
  }
  if (!is_there) return nb::none();
  const nb::bytes index(content.data(), content.size());
  const nb::object whole = is_small(found, small) ? read_whole(*data, found, memory) : nb::none();
  nb::object pair = nb::make_tuple(index, whole.is_none() ? data->number : -1, whole);
  if (whole.is_none()) data->number = -1;  // the caller's from now on
  return pair;
}

nb::object read_small(nb::str path, std::uint64_t most, nb::handle memory) {
  const nb::object held = encoded(path);
  if (!held.is_valid()) return nb::none();
  const char* const name = PyBytes_AsString(held.ptr());
  struct stat found;
  std::optional<Descriptor> file;
  {
    const Unlocked unlocked;
    // Looked at before it is opened: a pipe would notice that, and wait.
    if (stat(name, &found) == 0 && is_small(found, most)) file.emplace(name);
    if (!file || file->number < 0 || fstat(file->number, &found) != 0 || !is_small(found, most)) {
      file.reset();
    }
  }
  return file ? read_whole(*file, found, memory) : nb::none();
}

#else

nb::object read_small(nb::str, std::uint64_t, nb::handle) { return nb::none(); }

nb::object open_pair(nb::str, nb::str, std::uint64_t, std::uint64_t, nb::handle) { return nb::none(); }

#endif

bool make_room([[maybe_unused]] int descriptor, [[maybe_unused]] std::int64_t offset,
               [[maybe_unused]] std::int64_t size) {
#if defined(__linux__)
  const Unlocked unlocked;
  return fallocate(descriptor, FALLOC_FL_KEEP_SIZE, offset, size) == 0;
#else
  return false;
#endif
}

// The system's number of an error, 0 for none.
int exchange_names([[maybe_unused]] const char* one, [[maybe_unused]] const char* other) {
  const Unlocked unlocked;
#if defined(__APPLE__)
  return renamex_np(one, other, RENAME_SWAP) == 0 ? 0 : errno;
#elif defined(RENAME_EXCHANGE)
  return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined(SYS_renameat2)  // the kernel has it, an older C library does not
  return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, 2) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

int exchange(const nb::bytes& one, const nb::bytes& other) {
  const std::string first(one.c_str(), one.size()), second(other.c_str(), other.size());
  const bool has_end = first.find('\0') != first.npos || second.find('\0') != second.npos;
  return has_end ? EINVAL : exchange_names(first.c_str(), second.c_str());
}

}  // namespace

void bind_files(nb::module_& module) {
  module.def("read_small", read_small, "path"_a, "most"_a, "memory"_a,
             "The bytes of a regular file of at most `most` bytes in a new bytearray of the class "
             "`memory`, and the file's identity (inode, size, time); None for anything else, and for whatever "
             "goes wrong: who opens the file in Python gets the error.");
  module.def("open_pair", open_pair, "first"_a, "second"_a, "most"_a, "small"_a, "memory"_a,
             "The bytes of a regular file of at most `most` bytes, the descriptor of another regular file "
             "that was opened while the first one had its name, and None; of one of at most `small` bytes "
             "-1, and what `read_small` gives. None for anything else.");
  module.def("make_room", make_room, "descriptor"_a, "offset"_a, "size"_a,
             "Reserves room on the disk without changing the size of a file; False where the system or the "
             "file system cannot, and where there is none.");
  module.def("exchange", exchange, "one"_a, "other"_a,
             "Exchanges the names of two files or directories; gives the system's number of the error, or 0.");
}

}  // namespace ferry::python

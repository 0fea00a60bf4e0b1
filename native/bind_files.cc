// Small files: read whole by one call, because the calls of Python around each of the system's take
// longer than the reading.
#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#endif

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

nb::object read_small(nb::str path, std::uint64_t most, nb::handle memory) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) {  // no file has such a name
    PyErr_Clear();
    return nb::none();
  }
  const nb::object held = nb::steal(encoded);
  const char* const name = PyBytes_AsString(encoded);
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
  if (!file) return nb::none();
  const nb::object whole = call(memory, checked(PyLong_FromLongLong(found.st_size)));
  if (PyByteArray_Check(whole.ptr()) == 0) throw nb::type_error("the memory is no bytearray");
  if (PyByteArray_Size(whole.ptr()) != found.st_size) throw nb::value_error("a memory of another size");
  auto* const target = reinterpret_cast<std::uint8_t*>(PyByteArray_AsString(whole.ptr()));
  bool is_whole = false;
  {
    const Unlocked unlocked;  // nobody else has the memory yet
    is_whole = read_all(file->number, target, static_cast<std::size_t>(found.st_size));
    file.reset();
  }
  if (!is_whole) return nb::none();
  return nb::make_tuple(whole, nb::make_tuple(static_cast<std::uint64_t>(found.st_ino),
                                              static_cast<std::int64_t>(found.st_size), modified(found)));
}

#else

nb::object read_small(nb::str, std::uint64_t, nb::handle) { return nb::none(); }

#endif

}  // namespace

void bind_files(nb::module_& module) {
  module.def("read_small", read_small, "path"_a, "most"_a, "memory"_a,
             "The bytes of a regular file of at most `most` bytes in a new bytearray of the class "
             "`memory`, and the file's identity (inode, size, time); None for anything else, and for whatever "
             "goes wrong: who opens the file in Python gets the error.");
}

}  // namespace ferry::python

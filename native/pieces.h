// Pieces of bytes that are handed on to Python without copying them.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/example.h"
#include "python.h"

namespace ferry::python {

using Bytes = example::Scratch<std::uint8_t>;

// Memory for pieces. What is handed on belongs to the view that Python gets, and comes back when
// nobody holds that any more: memory that was just used is fast memory.
class Pieces : public std::enable_shared_from_this<Pieces> {
 public:
  Pieces() { spare_.reserve(most_spare); }  // so that `put` never fails

  Bytes take() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return {};
    Bytes bytes = std::move(spare_.back());
    spare_.pop_back();
    return bytes;
  }

  // A memoryview of bytes, which it takes over.
  nb::object lend(Bytes bytes) {
    auto piece = std::make_unique<Piece>(std::move(bytes), weak_from_this());
    const nb::object owner = nb::cast(piece.get(), nb::rv_policy::take_ownership);
    piece.release();
    PyObject* const view = PyMemoryView_FromObject(owner.ptr());
    if (view == nullptr) throw nb::python_error();
    return nb::steal(view);
  }

  static void bind(nb::module_& module) {
    static PyType_Slot slots[] = {
        {Py_bf_getbuffer, reinterpret_cast<void*>(Piece::get_buffer)},
        {0, nullptr},
    };
    nb::class_<Piece>(module, "Piece", nb::type_slots(slots), "Bytes that were handed on.");
  }

 private:
  static constexpr std::size_t most_spare = 4;
  static constexpr std::size_t most_bytes = 4 << 20;  // of one that is kept

  struct Piece {
    Bytes bytes;
    std::weak_ptr<Pieces> lender;

    Piece(Bytes given, std::weak_ptr<Pieces> by) : bytes(std::move(given)), lender(std::move(by)) {}
    ~Piece() {
      if (const auto pieces = lender.lock()) pieces->put(std::move(bytes));
    }

    static int get_buffer(PyObject* self, Py_buffer* view, int flags) {
      static std::uint8_t nothing;
      if (!nb::inst_ready(self)) {
        PyErr_SetString(PyExc_BufferError, "a piece without bytes");
        return -1;
      }
      Bytes& bytes = nb::inst_ptr<Piece>(self)->bytes;
      return PyBuffer_FillInfo(view, self, bytes.size() == 0 ? &nothing : bytes.data(),
                               static_cast<Py_ssize_t>(bytes.size()), 1, flags);
    }
  };

  void put(Bytes bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (spare_.size() == most_spare || bytes.capacity() > most_bytes) return;
    bytes.cut(0);
    spare_.push_back(std::move(bytes));
  }

  std::mutex mutex_;
  std::vector<Bytes> spare_;
};

}  // namespace ferry::python

// Threads and the GIL: how native code lets it go, takes it back and calls Python, and how objects
// that work without it refuse a second caller.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace nb = nanobind;

namespace ferry::python {

// Stands around every call in which Python may take the GIL.
//
// When Python ends, a daemon thread that asks for the GIL is ended where it stands. Before Python
// 3.14 that is pthread_exit, which unwinds the stack as an exception would that nobody may catch:
// the first destructor or `catch (...)` on its way aborts the process. Such a thread stays here
// instead, as Python 3.14 itself has it, and the process ends without it. Between the call and this
// object there must be frames of C only.
class Stay {
 public:
  Stay() = default;
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  ~Stay() {
    while (!returned_) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  void returned() noexcept { returned_ = true; }

 private:
  bool returned_ = false;
};

inline bool is_finalizing() noexcept {
#if defined(Py_LIMITED_API)  // has no call for it before 3.13
  PyObject* const ask = PySys_GetObject("is_finalizing");
  PyObject* const answer = ask == nullptr ? nullptr : PyObject_CallNoArgs(ask);
  PyErr_Clear();
  Py_XDECREF(answer);  // one of the two that always live
  return answer != Py_False;
#elif PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// Lets the GIL go for as long as this lives; nb::gil_scoped_release without its end.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  // Calls `work` with the GIL.
  template <typename Work>
  void locked(Work work) {
    struct Again {  // lets it go again, whatever happens
      PyThreadState*& state;
      ~Again() { state = PyEval_SaveThread(); }
    };
    lock();
    const Again again{state_};
    work();
  }

 private:
  void lock() {
    Stay stay;
    PyEval_RestoreThread(state_);
    stay.returned();
  }

  PyThreadState* state_;
};

// Calls a Python function.
template <typename... Arguments>
nb::object call(nb::handle function, const Arguments&... arguments) {
  Stay stay;
  PyObject* const result = PyObject_CallFunctionObjArgs(
      function.ptr(), nb::handle(arguments).ptr()..., static_cast<PyObject*>(nullptr));
  stay.returned();
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

// Lets Python see to Ctrl-C and other signals.
inline void check_signals() {
  Stay stay;
  const int failed = PyErr_CheckSignals();
  stay.returned();
  if (failed != 0) throw nb::python_error();
}

// Who uses an object that works without the GIL: one call at a time. Others are refused, because
// what they would wait for may wait for them.
class Turn {
 public:
  explicit Turn(const char* owner) noexcept : owner_(owner) {}

  class Use {
   public:
    explicit Use(Turn& turn) : turn_(&turn) {
      if (turn.taken_.exchange(true, std::memory_order_acquire)) {
        throw std::runtime_error(std::string(turn.owner_) + " is busy: another call uses it");
      }
    }
    Use(Use&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (turn_ != nullptr) turn_->taken_.store(false, std::memory_order_release);
    }
    const Turn* turn() const noexcept { return turn_; }

   private:
    Turn* turn_;
  };

  bool is_taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

 private:
  const char* owner_;
  std::atomic<bool> taken_{false};
};

}  // namespace ferry::python

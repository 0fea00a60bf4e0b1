// Work in threads whose results are used in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {

// Calls `make(number, slot)` for each number below `count` in some threads, and `use(slot)` in this
// one, in order. A slot holds one result: it is made anew after it was used. The first exception of
// either ends everything and is thrown here.
template <typename Make, typename Use>
class Pipeline {
 public:
  Pipeline(std::size_t count, std::size_t slots, Make make, Use use)
      : count_(count), made_(slots), make_(std::move(make)), use_(std::move(use)) {}

  void run(std::size_t threads) {
    std::vector<std::thread> makers;
    try {
      threads = std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(count_, 1));
      while (makers.size() < threads) makers.emplace_back([this] { make_all(); });
      use_all();
    } catch (...) {
      stop(std::current_exception());
    }
    for (std::thread& maker : makers) maker.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void make_all() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopped_ || next_ == count_ || next_ < used_ + made_.size(); });
      if (stopped_ || next_ == count_) return;
      const std::size_t number = next_++;
      lock.unlock();
      try {
        make_(number, number % made_.size());
      } catch (...) {
        return stop(std::current_exception());
      }
      lock.lock();
      made_[number % made_.size()] = true;
      changed_.notify_all();
    }
  }

  void use_all() {
    std::unique_lock lock(mutex_);
    for (; used_ < count_; ++used_) {
      const std::size_t slot = used_ % made_.size();
      changed_.wait(lock, [&] { return stopped_ || made_[slot]; });
      if (stopped_) return;
      lock.unlock();
      use_(slot);
      lock.lock();
      made_[slot] = false;
      changed_.notify_all();
    }
  }

  void stop(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!stopped_) failure_ = std::move(failure);
    stopped_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_;
  std::size_t next_ = 0;  // to be made
  std::size_t used_ = 0;
  std::vector<bool> made_;  // by slot, and not used yet
  bool stopped_ = false;
  std::exception_ptr failure_;
  Make make_;
  Use use_;
};

}  // namespace ferry

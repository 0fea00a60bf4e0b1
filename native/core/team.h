// Threads that do jobs in the order they were given, and a caller who works instead of waiting.
//
// The caller gives jobs ahead and takes them back in the same order. Nothing here knows Python:
// whoever holds the GIL, the threads go on.
#pragma once

#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ferry {

inline int process_id() noexcept {
#if defined(_WIN32)
  return _getpid();
#else
  return getpid();
#endif
}

class Team {
 public:
  // Up to so many threads beside the caller; without any, a job is done when it is waited for.
  explicit Team(std::size_t helpers)
      : state_(std::make_unique<State>()), limit_(helpers), process_(process_id()) {}

  // Waits for the jobs that were begun; the others are forgotten.
  ~Team() {
    if (is_forked()) {
      state_.release();
      return;
    }
    {
      const std::lock_guard lock(state_->mutex);
      state_->closed = true;
    }
    state_->given.notify_all();
    for (std::thread& helper : state_->helpers) helper.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  // A forked process has none of the threads, and what they had locked stays locked: nothing can be
  // waited for in it.
  bool is_forked() const noexcept { return process_id() != process_; }

  // A job must not throw.
  void submit(std::function<void()> job) {
    std::size_t jobs;
    {
      const std::lock_guard lock(state_->mutex);
      state_->jobs.push_back({std::move(job)});
      jobs = state_->jobs.size();
    }
    state_->given.notify_one();
    // The caller can do one job, and all of them: a file of one batch needs no thread.
    if (jobs > state_->helpers.size() + 1 && state_->helpers.size() < limit_) start_helper();
  }

  // Returns when the oldest job is done, and forgets it. Until then the caller does jobs, too.
  void wait() {
    std::unique_lock lock(state_->mutex);
    while (!state_->jobs.front().done) {
      if (state_->begun < state_->jobs.size()) {
        state_->do_next(lock);
      } else {
        state_->finished.wait(lock);
      }
    }
    state_->jobs.pop_front();
    --state_->begun;
  }

 private:
  void start_helper() {
    try {
      state_->helpers.emplace_back([state = state_.get()] { state->help(); });
    } catch (const std::system_error&) {
      limit_ = state_->helpers.size();  // there are no more to be had
    }
  }

  struct Job {
    std::function<void()> work;
    bool done = false;
  };

  struct State {
    std::mutex mutex;
    std::condition_variable given;
    std::condition_variable finished;
    std::deque<Job> jobs;
    std::size_t begun = 0;  // how many of the jobs
    bool closed = false;
    std::vector<std::thread> helpers;

    void help() {
      std::unique_lock lock(mutex);
      while (true) {
        given.wait(lock, [this] { return closed || begun < jobs.size(); });
        if (closed) return;
        do_next(lock);
      }
    }

    void do_next(std::unique_lock<std::mutex>& lock) {
      Job& job = jobs[begun++];  // stays where it is while jobs come behind and go in front
      lock.unlock();
      job.work();
      lock.lock();
      job.done = true;
      finished.notify_one();
    }
  };

  std::unique_ptr<State> state_;
  std::size_t limit_;
  int process_;
};

}  // namespace ferry

// SPDX-License-Identifier: Apache-2.0
// The compute pool of a CPU device, shared by all engines. Tasks are claimed from an atomic counter, because a static
// partition stalls whenever another thread takes a core; waits spin for some 20 us, then sleep, so an idle pool
// costs nothing. Thread rule: Run may be called from any thread; concurrent calls are serialised.
#pragma once

#include <cstdint>
#include <memory>

namespace dunlin::kernels::cpu {

class ThreadPool {
 public:
  // num_threads >= 1 counts the caller of Run: num_threads - 1 workers are started.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(task, worker) once for every task in [0, num_tasks), 0 <= worker < num_threads(), each worker index in
  // use by one thread at a time; returns when all have finished. Does not allocate. body must not throw nor call Run.
  template <typename Body>
  void Run(int64_t num_tasks, const Body& body) {
    RunErased(
        num_tasks,
        [](const void* erased, int64_t task, int worker) { (*static_cast<const Body*>(erased))(task, worker); }, &body);
  }

 private:
  using ErasedBody = void (*)(const void* body, int64_t task, int worker);
  void RunErased(int64_t num_tasks, ErasedBody call, const void* body);

  struct State;
  std::unique_ptr<State> state_;
};

// Hardware threads this process may use: the affinity mask, cut by the cgroup's CPU quota (rounded up), at least 1.
int UsableCpus();

}  // namespace dunlin::kernels::cpu

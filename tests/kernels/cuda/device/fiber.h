// SPDX-License-Identifier: Apache-2.0
// A function on a stack of its own, which is left where it yields and goes on there. Switches cost no system call, of
// which swapcontext makes one each.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

namespace dunlin::kernels::cuda {

class Fiber {
 public:
  // body begins with the first Resume. [stack, stack + bytes) is its own until it is done, or never resumed again.
  void Start(std::function<void()> body, char* stack, size_t bytes) {
    body_ = std::move(body);
    stack_ = stack;
    bytes_ = bytes;
    begun_ = done_ = false;
  }
  bool done() const { return done_; }
  // Runs it until it yields or is done. REQUIRES: !done().
  void Resume() {
    if (_setjmp(resumer_) != 0) return;
    if (begun_) _longjmp(place_, 1);
    begun_ = true;
    Begin();
  }
  // On the fiber: returns with the next Resume.
  void Yield() {
    if (_setjmp(place_) == 0) _longjmp(resumer_, 1);
  }

 private:
  [[noreturn]] void Begin() {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack_;
    context.uc_stack.ss_size = bytes_;
    context.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::Enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
    setcontext(&context);
    std::abort();
  }
  static void Enter(unsigned low, unsigned high) {
    auto* fiber = reinterpret_cast<Fiber*>(uintptr_t{low} | uintptr_t{high} << 32);
    fiber->body_();
    fiber->done_ = true;
    fiber->Yield();
  }

  std::function<void()> body_;
  char* stack_ = nullptr;
  size_t bytes_ = 0;
  jmp_buf resumer_;
  jmp_buf place_;
  bool begun_ = false;
  bool done_ = false;
};

}  // namespace dunlin::kernels::cuda

// A device that passes every operation on to another one and adds up the time that each kind takes: how a model's step
// divides among its operations, without a change to the model. Where operations are only enqueued, timing them means to
// wait for each, which is done when it is asked for. Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::server::bench {

enum class OpKind : uint8_t { kGemm, kAttention, kNorm, kStoreKv, kActivate, kQuantize, kGather };
inline constexpr int kNumOpKinds = 7;
constexpr const char* Name(OpKind kind) {
  constexpr const char* kNames[kNumOpKinds] = {"gemm",     "attention", "norm",  "rope_and_kv",
                                               "activate", "quantize",  "gather"};
  return kNames[static_cast<int>(kind)];
}
using OpSeconds = std::array<double, kNumOpKinds>;  // by OpKind

class TimedDevice {
 public:
  explicit TimedDevice(kernels::Device* inner);  // outlives this
  TimedDevice(const TimedDevice&) = delete;
  TimedDevice& operator=(const TimedDevice&) = delete;

  kernels::Device* device() { return &device_; }
  const OpSeconds& seconds() const { return state_.seconds; }
  // Whether an operation has finished when it returns, so that timing it costs nothing.
  bool always_timed() const { return !state_.waits; }
  // REQUIRES: !always_timed(). Off at first.
  void set_timed(bool timed) { state_.timed = timed; }

  // What the device's context points to.
  struct State {
    kernels::Device* inner;
    OpSeconds seconds;
    bool waits;
    bool timed;
  };

 private:
  State state_;
  const kernels::DeviceOps ops_;
  kernels::Device device_;
};

}  // namespace dunlin::server::bench

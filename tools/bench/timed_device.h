// SPDX-License-Identifier: Apache-2.0
// A device that forwards every operation to another one and sums the time per kind of operation, so that a model's step
// can be broken down without changing the model. Asynchronous operations are timed by waiting for each, which set_timed
// turns on. Thread rule: one thread.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::tools::bench {

enum class OpKind : uint8_t { kGemm, kAttention, kNorm, kStoreKv, kActivate, kQuantize, kGather, kState };
inline constexpr int kNumOpKinds = 8;
constexpr const char* Name(OpKind kind) {
  constexpr const char* kNames[kNumOpKinds] = {"gemm",     "attention", "norm",   "rope_and_kv",
                                               "activate", "quantize",  "gather", "state"};
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
  // Whether operations are synchronous, so that timing them costs nothing.
  bool always_timed() const { return !state_.waits; }
  // REQUIRES: !always_timed(). Initially off.
  void set_timed(bool timed) { state_.timed = timed; }

  // The device's context points to this.
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

}  // namespace dunlin::tools::bench

// SPDX-License-Identifier: Apache-2.0
// The sums of x x^T over the inputs x of linear operations, by products of the device. On the CPU only: it reads the
// rows where they are.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine/layers/input_observer.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

class InputMoments final : public InputObserver {
 public:
  // columns: of each observed input, by its index (InputIndex). device outlives the object. REQUIRES: a CPU.
  InputMoments(kernels::Device* device, const std::map<int32_t, int64_t>& columns);

  kernels::KernelStatus OnInput(int32_t input, const float* rows, int32_t num_rows, int32_t columns) override;

  // [columns, columns] of an observed input, which is forgotten.
  std::vector<float> Take(int32_t input);

 private:
  // Memory of the device, at least as large as asked for.
  class Block {
   public:
    explicit Block(kernels::Device* device) : device_(device) {}
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { Release(); }
    void* Get(size_t bytes);  // null without memory

   private:
    void Release();
    kernels::Device* device_;
    void* memory_ = nullptr;
    size_t bytes_ = 0;
  };

  kernels::Device* device_;
  std::map<int32_t, std::vector<float>> sums_;
  Block packed_;
  Block activation_;
};

}  // namespace dunlin::engine

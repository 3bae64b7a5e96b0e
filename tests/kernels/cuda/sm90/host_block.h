// SPDX-License-Identifier: Apache-2.0
// The members of DeviceBlock (kernels/cuda/sm90/device_block.h) on the host's machine: what a kernel's source is
// instantiated with in tests. Products add k in ascending order to FP32 sums.
#pragma once

#include <bit>
#include <cstring>

#include "kernels/cuda/sm90/descriptor.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/wgmma.h"
#include "tests/kernels/cuda/sm90/machine.h"

namespace dunlin::kernels::cuda {

// A map of the host holds its shape.
TensorShape ShapeOf(const TensorMap& map);
// Where bytes [byte, ..) of row `row` along M or N of an operand lie; `byte` is along K, of one instruction.
uint32_t OperandByte(uint64_t descriptor, int row, int byte);
// The same of an MN-major operand of two-byte elements.
uint32_t TransposedElement(uint64_t descriptor, int row, int k);

class HostBlock {
 public:
  // index, count: of the launch's blocks.
  HostBlock(Machine* machine, int thread, int64_t index, int64_t count)
      : machine_(machine), thread_(thread), index_(index), count_(count) {}

  int thread() const { return thread_; }
  int64_t index() const { return index_; }
  int64_t count() const { return count_; }
  uint32_t SharedBase() const {
    return (machine_->base() + kSwizzleAlignment - 1) / kSwizzleAlignment * kSwizzleAlignment;
  }

  void SyncBlock() const { machine_->SyncThreads(0, machine_->threads(), true); }
  void SyncWarp() const { machine_->SyncWarp(); }
  void SyncNamed(int id, int threads) const { machine_->SyncThreads(id, threads, true); }
  void ArriveNamed(int id, int threads) const { machine_->SyncThreads(id, threads, false); }
  template <typename T>
  T ShuffleXor(T value, int mask) const {
    static_assert(sizeof(T) == 4);
    const uint64_t other = machine_->Exchange(std::bit_cast<uint32_t>(value), thread_ % 32 ^ mask);
    return std::bit_cast<T>(static_cast<uint32_t>(other));
  }
  template <int kRegisters>
  void RaiseRegisters() const {
    machine_->SetRegisters(kRegisters, true);
  }
  template <int kRegisters>
  void LowerRegisters() const {
    machine_->SetRegisters(kRegisters, false);
  }
  void WaitForPreceding() const { machine_->WaitForPreceding(); }
  void LaunchDependents() const {}

  void InitBarrier(uint32_t barrier, uint32_t arrivals) const { machine_->InitBarrier(barrier, arrivals); }
  void FenceBarrierInit() const { machine_->FenceBarrierInit(); }
  void Arrive(uint32_t barrier) const { machine_->Arrive(barrier, 0); }
  void ArriveExpecting(uint32_t barrier, uint32_t bytes) const { machine_->Arrive(barrier, bytes); }
  void Wait(uint32_t barrier, uint32_t parity) const { machine_->Wait(barrier, parity); }

  void PrefetchMap(const TensorMap& /*map*/) const {}
  template <bool kStreamed = false, typename... Coordinates>
  void LoadBox(uint32_t to, const TensorMap& map, uint32_t barrier, Coordinates... at) const {
    LoadShape(to, ShapeOf(map), barrier, {at...}, sizeof...(at));
  }
  void LoadBytes(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) const;
  void StoreBox(const TensorMap& map, uint32_t from, int32_t x, int32_t y) const;
  void CommitStores() const { machine_->CommitStores(); }
  template <int kPending, bool kRead>
  void WaitForStores() const {
    machine_->WaitForStores(kPending);
  }
  void FenceAsync() const { machine_->FenceAsync(); }

  void FenceProducts() const { machine_->FenceProducts(); }
  void CommitProducts() const { machine_->CommitProducts(); }
  template <int kPending>
  void WaitForProducts() const {
    machine_->WaitForProducts(kPending);
  }
  template <typename Format, int kN, bool kTransposed = false>
  void Multiply(float (&sums)[kN / 2], uint64_t a, uint64_t b, bool add) const {
    Join<Format, kN, kTransposed>(sums, nullptr, a, b, add);
  }
  template <typename Format, int kN, bool kTransposed = false>
  void Multiply(float (&sums)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool add) const {
    Join<Format, kN, kTransposed>(sums, a, 0, b, add);
  }

  void LoadPiece(uint32_t (&to)[4], uint32_t from) const {
    CheckAligned(from, 16);
    machine_->Read(from, to, 16, false);
  }
  uint32_t LoadWord(uint32_t from) const { return LoadValue<uint32_t>(from); }
  uint16_t LoadHalf(uint32_t from) const { return LoadValue<uint16_t>(from); }
  uint8_t LoadByte(uint32_t from) const { return LoadValue<uint8_t>(from); }
  float LoadFloat(uint32_t from) const { return LoadValue<float>(from); }
  void LoadWords(uint32_t (&to)[2], uint32_t from) const {
    CheckAligned(from, 8);
    machine_->Read(from, to, sizeof(to), false);
  }
  void LoadFloats(float (&to)[2], uint32_t from) const {
    CheckAligned(from, 8);
    machine_->Read(from, to, sizeof(to), false);
  }
  void StoreWord(uint32_t to, uint32_t value) const {
    CheckAligned(to, 4);
    machine_->Write(to, &value, sizeof(value), false);
  }
  void StorePiece(uint32_t to, const uint32_t (&from)[4]) const {
    CheckAligned(to, 16);
    machine_->Write(to, from, 16, false);
  }
  void StoreMatrices(uint32_t row, const uint32_t (&values)[4]) const;
  // For tests that lay out operands.
  void WriteElement(uint32_t to, uint16_t bits) const { machine_->Write(to, &bits, sizeof(bits), false); }

 private:
  template <typename Format>
  static constexpr int kElementBytes = Format::kDType == DType::kF8E4M3 ? 1 : 2;

  template <typename T>
  T LoadValue(uint32_t from) const {
    CheckAligned(from, sizeof(T));
    T value{};
    machine_->Read(from, &value, sizeof(value), false);
    return value;
  }
  void CheckAligned(uint32_t address, uint32_t alignment) const {
    if (address % alignment != 0) machine_->Fail("address " + std::to_string(address) + " is not aligned");
  }
  void LoadShape(uint32_t to, const TensorShape& shape, uint32_t barrier, const std::vector<int32_t>& at,
                 size_t rank) const;

  template <typename Format, int kN, bool kTransposed>
  void Join(float (&sums)[kN / 2], const uint32_t* registers, uint64_t a, uint64_t b, bool add) const {
    static_assert(kN % 8 == 0 && kN <= 256);
    Machine* machine = machine_;
    machine_->JoinProduct(a, b, sums, registers, [machine, add](const Machine::Product& product) {
      Execute<Format, kN, kTransposed>(machine, product, add);
    });
  }
  template <typename Format>
  static float Element(Machine* machine, uint32_t address) {
    if constexpr (kElementBytes<Format> == 1) {
      uint8_t code = 0;
      machine->Read(address, &code, 1, true);
      return Format::ToFloat(code);
    } else {
      uint16_t bits = 0;
      machine->Read(address, &bits, 2, true);
      return Format::ToFloat(bits);
    }
  }
  // Register r of thread t: row t / 4 % 8 of its warp's 16, 8 more if r is odd; 4 bytes of K from 4 (t % 4), 16 more
  // from r = 2 on.
  template <typename Format>
  static void RowsOfRegisters(const Machine::Product& product, float (*left)[kWgmmaStepBytes]) {
    for (int thread = 0; thread < 128; ++thread) {
      for (int r = 0; r < 4; ++r) {
        float* row = left[WgmmaSlot::Row(thread, 2 * (r % 2))];
        const uint32_t word = product.registers[thread][r];
        const int byte = thread % 4 * 4 + r / 2 * 16;
        for (int i = 0; i < 4; i += kElementBytes<Format>) {
          const uint32_t bits = word >> (8 * i);
          if constexpr (kElementBytes<Format> == 1) {
            row[byte + i] = Format::ToFloat(static_cast<uint8_t>(bits));
          } else {
            row[(byte + i) / 2] = Format::ToFloat(static_cast<uint16_t>(bits));
          }
        }
      }
    }
  }
  template <typename Format, int kN, bool kTransposed>
  static void Execute(Machine* machine, const Machine::Product& product, bool add) {
    constexpr int kBytes = kElementBytes<Format>;
    constexpr int kDepth = static_cast<int>(kWgmmaStepBytes) / kBytes;
    auto left = std::make_unique<float[][kWgmmaStepBytes]>(64);
    auto right = std::make_unique<float[][kN]>(kDepth);
    if (product.registers[0] != nullptr) RowsOfRegisters<Format>(product, left.get());
    for (int k = 0; k < kDepth; ++k) {
      for (int row = 0; row < 64 && product.registers[0] == nullptr; ++row) {
        left[row][k] = Element<Format>(machine, OperandByte(product.a, row, k * kBytes));
      }
      for (int n = 0; n < kN; ++n) {
        right[k][n] = Element<Format>(
            machine, kTransposed ? TransposedElement(product.b, n, k) : OperandByte(product.b, n, k * kBytes));
      }
    }
    for (int row = 0; row < 64; ++row) AddRow<kN, kDepth>(product, row, left[row], right.get(), add);
  }
  template <int kN, int kDepth>
  static void AddRow(const Machine::Product& product, int row, const float* left, const float (*right)[kN], bool add) {
    float sums[kN];
    const auto for_slots = [&](const auto& visit) {
      for (int quad = 0; quad < 4; ++quad) {
        const int thread = row / 16 * 32 + row % 8 * 4 + quad;
        for (int i = row % 16 / 8 * 2; i < kN / 2; i += 4) {
          for (int j = i; j < i + 2; ++j) visit(&product.sums[thread][j], &sums[WgmmaSlot::Column(thread, j)]);
        }
      }
    };
    for_slots([add](const float* slot, float* sum) { *sum = add ? *slot : 0.0F; });
    for (int k = 0; k < kDepth; ++k) {
      for (int n = 0; n < kN; ++n) sums[n] += left[k] * right[k][n];
    }
    for_slots([](float* slot, const float* sum) { *slot = *sum; });
  }

  Machine* machine_;
  int thread_;
  int64_t index_;
  int64_t count_;
};

// Runs kernel(block) with every thread of one block; "" or the first fault.
template <typename Kernel>
std::string RunBlock(const MachineOptions& options, int64_t index, int64_t count, const Kernel& kernel) {
  Machine machine(options);
  return machine.Run([&](int thread) { kernel(HostBlock(&machine, thread, index, count)); });
}

}  // namespace dunlin::kernels::cuda

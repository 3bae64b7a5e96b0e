// SPDX-License-Identifier: Apache-2.0
// The members of DeviceBlock (kernels/cuda/sm90/device_block.h) on the host's machine: what a kernel's source is
// instantiated with in tests. Products add k in ascending order to FP32 sums.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

#include "kernels/cuda/sm90/descriptor.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/wgmma.h"
#include "tests/kernels/cuda/sm90/machine.h"

namespace dunlin::kernels::cuda {

// A map of the host holds its shape.
TensorShape ShapeOf(const TensorMap& map);
// Where bytes [byte, ..) of row `row` along M or N of an operand lie; `byte` is along K, of one instruction. 16 bytes
// from a multiple of 16 on are in one piece.
uint32_t OperandByte(uint64_t descriptor, int row, int byte);
// The same of an MN-major operand of two-byte elements: 8 rows from a multiple of 8 on are in one piece.
uint32_t TransposedElement(uint64_t descriptor, int row, int k);
// sums[r][n] += left[r][k] * right[k][n] for two rows r, k in ascending order. columns: a multiple of 8.
void AddProducts(const float* const (&left)[2], const float* right, int depth, int columns, float* const (&sums)[2]);

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
    return std::bit_cast<T>(machine_->Exchange({std::bit_cast<uint32_t>(value)})[thread_ % 32 ^ mask][0]);
  }
  template <int kRegisters>
  void RaiseRegisters() const {
    machine_->SetRegisters(kRegisters, true);
  }
  template <int kRegisters>
  void LowerRegisters() const {
    machine_->SetRegisters(kRegisters, false);
  }
  template <typename T>
  T Again(T value) const {
    return value;
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
  void LoadMemory(float (&to)[4], const float* from) const { std::memcpy(to, from, sizeof(to)); }
  void StoreMemory(float* to, const float (&from)[4]) const { std::memcpy(to, from, sizeof(from)); }
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
  // 16 bytes of consecutive elements.
  template <typename Format>
  static void ReadPiece(Machine* machine, uint32_t address, float (&to)[16 / kElementBytes<Format>]) {
    constexpr int kElements = 16 / kElementBytes<Format>;
    std::conditional_t<kElementBytes<Format> == 1, uint8_t, uint16_t> bits[kElements] = {};
    machine->Read(address, bits, 16, true);
    for (int i = 0; i < kElements; ++i) to[i] = Format::ToFloat(bits[i]);
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
    constexpr int kElements = 16 / kElementBytes<Format>;  // of a piece
    constexpr int kDepth = static_cast<int>(kWgmmaStepBytes) / kElementBytes<Format>;
    auto left = std::make_unique_for_overwrite<float[][kWgmmaStepBytes]>(64);
    auto right = std::make_unique_for_overwrite<float[][kN]>(kDepth);
    if (product.registers[0] != nullptr) RowsOfRegisters<Format>(product, left.get());
    float piece[kElements];
    for (int row = 0; row < 64 && product.registers[0] == nullptr; ++row) {
      for (int k = 0; k < kDepth; k += kElements) {
        ReadPiece<Format>(machine, OperandByte(product.a, row, k * kElementBytes<Format>), piece);
        std::ranges::copy(piece, left[row] + k);
      }
    }
    if constexpr (kTransposed) {
      for (int k = 0; k < kDepth; ++k) {
        for (int n = 0; n < kN; n += kElements) {
          ReadPiece<Format>(machine, TransposedElement(product.b, n, k), piece);
          std::ranges::copy(piece, right[k] + n);
        }
      }
    } else {
      for (int n = 0; n < kN; ++n) {
        for (int k = 0; k < kDepth; k += kElements) {
          ReadPiece<Format>(machine, OperandByte(product.b, n, k * kElementBytes<Format>), piece);
          for (int i = 0; i < kElements; ++i) right[k + i][n] = piece[i];
        }
      }
    }
    for (int row = 0; row < 64; row += row % 8 == 7 ? 9 : 1)
      AddRows<kN, kDepth>(product, row, left.get(), right[0], add);
  }
  // Rows `row` and row + 8, which the same four threads hold (WgmmaSlot).
  template <int kN, int kDepth>
  static void AddRows(const Machine::Product& product, int row, const float (*left)[kWgmmaStepBytes],
                      const float* right, bool add) {
    float sums[2][kN];
    const auto for_slots = [&](const auto& visit) {
      for (int thread = row / 16 * 32 + row % 8 * 4, quad = 0; quad < 4; ++quad) {
        float* slots = product.sums[thread + quad];
        for (int i = 0; i < kN / 2; ++i) visit(slots + i, &sums[i / 2 % 2][i / 4 * 8 + quad * 2 + i % 2]);
      }
    };
    for_slots([add](const float* slot, float* sum) { *sum = add ? *slot : 0.0F; });
    AddProducts({left[row], left[row + 8]}, right, kDepth, kN, {sums[0], sums[1]});
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

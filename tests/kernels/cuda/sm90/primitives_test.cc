// SPDX-License-Identifier: Apache-2.0
// The host's machine against what the PTX ISA says of the instructions: layouts, boxes, products and barriers. What
// kernels are tested on must itself be right.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cuda/ops/host_matrix.h"
#include "tests/kernels/cuda/sm90/host_block.h"

namespace dunlin::kernels::cuda {
namespace {

template <typename Format>
constexpr TensorElement kElement = Format::kDType == DType::kF8E4M3 ? TensorElement::kByte
                                   : Format::kDType == DType::kBF16 ? TensorElement::kBf16
                                                                    : TensorElement::kFp16;
template <typename Format>
constexpr Precision kPrecisionOf = Format::kDType == DType::kF8E4M3 ? Precision::kFp8
                                   : Format::kDType == DType::kBF16 ? Precision::kBf16
                                                                    : Precision::kFp16;

constexpr uint32_t kA = 0;
constexpr uint32_t kB = 8192;
constexpr uint32_t kBar = kB + 256 * 128;
constexpr uint32_t kShared = kBar + 16 + kSwizzleAlignment;

// A matrix of 128 bytes a row in the device's layout, random; E4M3 without its scales.
template <typename Format>
HostMatrix Rows(int64_t rows, uint32_t seed) {
  HostMatrix matrix(kPrecisionOf<Format>, rows, kPrecisionOf<Format> == Precision::kFp8 ? 128 : 64);
  FillRandom(matrix, seed);
  return matrix;
}
float ValueOf(const HostMatrix& matrix, int64_t row, int64_t k) {
  return PackedElement(matrix.view().precision, matrix.view().row(row), k);
}
template <typename Format>
TensorMap MapOf(const HostMatrix& matrix) {
  const auto rows = static_cast<uint64_t>(matrix.view().rows);
  const auto columns = static_cast<uint64_t>(matrix.view().columns);
  TensorMap map;
  EXPECT_EQ(
      EncodeTensorMap(
          MatrixShape(matrix.view().data, kElement<Format>, rows, columns, 128, static_cast<uint32_t>(rows)), &map),
      0);
  return map;
}

// One warpgroup loads A [64, 128 bytes] and B [kN, 128 bytes] and multiplies them, A from shared memory or registers.
template <typename Format, int kN>
void MultiplyRows(const HostBlock& block, const TensorMap& a, const TensorMap& b, const HostMatrix* registers,
                  float* out) {
  const uint32_t base = block.SharedBase();
  if (block.thread() == 0) {
    block.InitBarrier(base + kBar, 1);
    block.FenceBarrierInit();
  }
  block.SyncBlock();
  if (block.thread() == 0) {
    block.ArriveExpecting(base + kBar, 8192 + kN * 128);
    block.LoadBox(base + kA, a, base + kBar, 0, 0);
    block.LoadBox(base + kB, b, base + kBar, 0, 0);
  }
  block.Wait(base + kBar, 0);
  float sums[kN / 2];
  uint32_t fragments[4][4];
  block.FenceProducts();
  for (int step = 0; step < 4; ++step) {
    const uint64_t right = WgmmaRows(base + kB) + static_cast<uint64_t>(step) * kDescriptorStep;
    if (registers == nullptr) {
      block.Multiply<Format, kN>(sums, WgmmaRows(base + kA) + static_cast<uint64_t>(step) * kDescriptorStep, right,
                                 step > 0);
      continue;
    }
    for (int r = 0; r < 4; ++r) {
      const int row = WgmmaSlot::Row(block.thread(), r % 2 * 2);
      std::memcpy(&fragments[step][r], registers->view().row(row) + step * 32 + r / 2 * 16 + block.thread() % 4 * 4, 4);
    }
    block.Multiply<Format, kN>(sums, fragments[step], right, step > 0);
  }
  block.CommitProducts();
  block.WaitForProducts<0>();
  for (int i = 0; i < kN / 2; ++i) {
    out[WgmmaSlot::Row(block.thread(), i) * kN + WgmmaSlot::Column(block.thread(), i)] = sums[i];
  }
}

template <typename Format, int kN>
void CheckForm() {
  SCOPED_TRACE(std::string(Name(Format::kDType)) + " n" + std::to_string(kN));
  const HostMatrix a = Rows<Format>(64, 1);
  const HostMatrix b = Rows<Format>(kN, 2);
  std::vector<float> shared(64 * kN, NAN);
  std::vector<float> registers = shared;
  const auto run = [&](const HostMatrix* from, float* out) {
    return RunBlock({.threads = 128, .shared_bytes = kShared}, 0, 1, [&](const HostBlock& block) {
      MultiplyRows<Format, kN>(block, MapOf<Format>(a), MapOf<Format>(b), from, out);
    });
  };
  ASSERT_EQ(run(nullptr, shared.data()), "");
  ASSERT_EQ(run(&a, registers.data()), "");
  EXPECT_EQ(shared, registers);
  for (int64_t m = 0; m < 64; ++m) {
    for (int64_t n = 0; n < kN; ++n) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < a.view().columns; ++k) {
        sum += double{ValueOf(a, m, k)} * ValueOf(b, n, k);
        magnitude += std::fabs(double{ValueOf(a, m, k)} * ValueOf(b, n, k));
      }
      ASSERT_NEAR(shared[static_cast<size_t>(m * kN + n)], sum, 0x1p-17 * magnitude) << m << ", " << n;
    }
  }
}

TEST(Sm90Machine, ProductsOfEveryFormMatchFp64) {
  CheckForm<Bf16Format, 8>();
  CheckForm<Bf16Format, 64>();
  CheckForm<Bf16Format, 256>();
  CheckForm<Fp16Format, 16>();
  CheckForm<Fp16Format, 128>();
  CheckForm<E4M3Format, 32>();
  CheckForm<E4M3Format, 128>();
}

// B in shared memory with K along its rows (the transposed form), and without swizzle: the bits of the K-major form.
TEST(Sm90Machine, LayoutsOfBGiveTheSameBits) {
  constexpr int kN = 128;
  constexpr int kDepth = 16;
  const HostMatrix a = Rows<Bf16Format>(64, 1);
  const HostMatrix b = Rows<Bf16Format>(kN, 2);
  std::vector<float> out[3];
  for (int layout = 0; layout < 3; ++layout) {
    out[layout].resize(64 * kN);
    const std::string fault = RunBlock({.threads = 128, .shared_bytes = kShared}, 0, 1, [&](const HostBlock& block) {
      const uint32_t base = block.SharedBase();
      // Thread n writes what it has of B: element k, or pieces of eight, at their place in the layout.
      const int n = block.thread();
      const uint16_t* row = reinterpret_cast<const uint16_t*>(b.view().row(n));
      const auto place = [&](int k) {
        const auto at = static_cast<uint32_t>(n);
        if (layout == 0) return Swizzled(base + at * 128 + static_cast<uint32_t>(k) * 2);
        if (layout == 1) return Swizzled(base + at / 64 * 2048 + static_cast<uint32_t>(k) * 128 + at % 64 * 2);
        return base + static_cast<uint32_t>(k / 8) * 2048 + at * 16 + static_cast<uint32_t>(k % 8) * 2;
      };
      for (int k = 0; k < kDepth; ++k) block.WriteElement(place(k), row[k]);
      block.FenceAsync();
      block.SyncBlock();
      uint32_t fragment[4];
      for (int r = 0; r < 4; ++r) {
        std::memcpy(&fragment[r],
                    a.view().row(WgmmaSlot::Row(block.thread(), r % 2 * 2)) + r / 2 * 16 + block.thread() % 4 * 4, 4);
      }
      float sums[kN / 2];
      block.FenceProducts();
      if (layout == 0) block.Multiply<Bf16Format, kN>(sums, fragment, WgmmaRows(base), false);
      if (layout == 1) block.Multiply<Bf16Format, kN, true>(sums, fragment, WgmmaColumns(base, 2048, 1024), false);
      if (layout == 2) block.Multiply<Bf16Format, kN>(sums, fragment, WgmmaCores(base, 2048, 128), false);
      block.CommitProducts();
      block.WaitForProducts<0>();
      std::copy_n(sums, kN / 2, &out[layout][static_cast<size_t>(block.thread()) * kN / 2]);
    });
    ASSERT_EQ(fault, "");
    EXPECT_EQ(out[layout], out[0]) << layout;
  }
  EXPECT_TRUE(std::ranges::none_of(out[0], [](float value) { return std::isnan(value) || value == 0; }));
}

// A load zero-fills what is outside, a store leaves it alone.
TEST(Sm90Machine, BoxesAreClippedAtTheTensorsBounds) {
  constexpr int64_t kRowsOf = 11;
  constexpr int64_t kColumns = 72;
  const HostMatrix from(Precision::kBf16, kRowsOf, kColumns);
  const HostMatrix to(Precision::kBf16, kRowsOf, kColumns);
  FillRandom(from, 5);
  const auto map_of = [](const HostMatrix& matrix) {
    TensorMap map;
    EXPECT_EQ(EncodeTensorMap(MatrixShape(matrix.view().data, TensorElement::kBf16, 10, 70, 2 * 80, 8), &map), 0);
    return map;
  };
  std::vector<uint16_t> seen(8 * 64);
  const std::string fault = RunBlock({.threads = 128, .shared_bytes = kShared}, 0, 1, [&](const HostBlock& block) {
    const uint32_t base = block.SharedBase();
    if (block.thread() != 0) return;
    block.InitBarrier(base + kBar, 1);
    block.FenceBarrierInit();
    block.ArriveExpecting(base + kBar, 1024);
    block.LoadBox(base, map_of(from), base + kBar, 64, 8);
    block.Wait(base + kBar, 0);
    for (uint32_t i = 0; i < 8 * 64; ++i) {
      uint32_t piece[4];
      block.LoadPiece(piece, Swizzled(base + i / 64 * 128 + i % 64 / 8 * 16));
      std::memcpy(&seen[i], reinterpret_cast<const char*>(piece) + i % 8 * 2, 2);
    }
    block.StoreBox(map_of(to), base, 64, 8);
    block.CommitStores();
    block.WaitForStores<0, false>();
  });
  ASSERT_EQ(fault, "");
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      const bool inside = row < 2 && column < 6;
      const float value = Bf16ToFloat(seen[static_cast<size_t>(row * 64 + column)]);
      EXPECT_EQ(value, inside ? from.At(8 + row, 64 + column) : 0.0F) << row << ", " << column;
    }
  }
  for (int64_t row = 0; row < kRowsOf; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) {
      const bool stored = row >= 8 && row < 10 && column >= 64 && column < 70;
      EXPECT_EQ(std::isnan(to.At(row, column)), !stored) << row << ", " << column;
    }
  }
}

// Fragments of a product through StoreMatrices and TMA.
std::string StoreFragments(Mistake mistake, HostMatrix* out) {
  return RunBlock({.threads = 128, .shared_bytes = kShared, .mistake = mistake}, 0, 1, [&](const HostBlock& block) {
    const uint32_t base = block.SharedBase();
    const auto lane = static_cast<uint32_t>(block.thread() % 32);
    const auto row = static_cast<uint32_t>(block.thread() / 32 * 16) + lane % 16;
    TensorMap map;
    ASSERT_EQ(EncodeTensorMap(MatrixShape(out->view().data, TensorElement::kBf16, 64, 64, 128, 64), &map), 0);
    for (uint32_t pair = 0; pair < 4; ++pair) {
      uint32_t values[4];
      for (int i = 0; i < 4; ++i) {
        const int slot = static_cast<int>(pair) * 8 + i * 2;
        const auto value = [&](int j) {
          return static_cast<float>(WgmmaSlot::Row(block.thread(), j) +
                                    64 * WgmmaSlot::Column(block.thread(), j) % 256);
        };
        values[i] = PackPair<Bf16Format>(value(slot), value(slot + 1));
      }
      block.StoreMatrices(Swizzled(base + row * 128 + pair * 32 + lane / 16 * 16), values);
    }
    block.FenceAsync();
    block.SyncNamed(1, 128);
    if (block.thread() != 0) return;
    block.StoreBox(map, base, 0, 0);
    block.CommitStores();
    block.WaitForStores<0, true>();
  });
}

TEST(Sm90Machine, FragmentsAreStoredThroughMatrices) {
  HostMatrix out(Precision::kBf16, 64, 64);
  ASSERT_EQ(StoreFragments(Mistake::kNone, &out), "");
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      ASSERT_EQ(out.At(row, column), static_cast<float>(row + 64 * column % 256)) << row << ", " << column;
    }
  }
}

TEST(Sm90Machine, AStoreWithoutTheFenceOfItsWritersIsFound) {
  HostMatrix out(Precision::kBf16, 64, 64);
  EXPECT_NE(StoreFragments(Mistake::kSkippedAsyncFence, &out).find("without a fence"), std::string::npos);
}

TEST(Sm90Machine, WaitsThatNothingEndsAndAccessesOutsideAreFound) {
  const MachineOptions options{.threads = 128, .shared_bytes = kShared};
  const auto fault_of = [&](const auto& kernel) { return RunBlock(options, 0, 1, kernel); };
  EXPECT_NE(fault_of([](const HostBlock& block) { block.SyncNamed(1, 160); }).find("nothing can go on"),
            std::string::npos);
  EXPECT_NE(fault_of([](const HostBlock& block) { block.Wait(block.SharedBase(), 0); }).find("no barrier"),
            std::string::npos);
  EXPECT_NE(fault_of([](const HostBlock& block) {
              const uint32_t piece[4] = {};
              block.StorePiece(block.SharedBase() + kShared, piece);
            }).find("outside of shared memory"),
            std::string::npos);
  EXPECT_NE(fault_of([](const HostBlock& block) { block.RaiseRegisters<232>(); }).find("wrong direction"),
            std::string::npos);
}

// Warp 4 loads a tile again, which the warpgroup multiplies (or a thread of it reads) and releases.
std::string LoadAgain(bool multiplies, bool waits_before_release, uint64_t seed) {
  const HostMatrix a = Rows<Bf16Format>(64, 1);
  const HostMatrix b = Rows<Bf16Format>(64, 2);
  return RunBlock({.threads = 256, .shared_bytes = kShared, .seed = seed}, 0, 1, [&](const HostBlock& block) {
    const uint32_t base = block.SharedBase();
    const uint32_t full = base + kBar;
    const uint32_t empty = full + 8;
    if (block.thread() == 0) {
      block.InitBarrier(full, 1);
      block.InitBarrier(empty, 128);
      block.FenceBarrierInit();
    }
    block.SyncBlock();
    if (block.thread() == 128) {
      for (uint32_t turn = 0; turn < 2; ++turn) {
        block.Wait(empty, (turn & 1) ^ 1);
        block.ArriveExpecting(full, 8192 + 8192);
        block.LoadBox(base + kA, MapOf<Bf16Format>(a), full, 0, 0);
        block.LoadBox(base + kB, MapOf<Bf16Format>(b), full, 0, 0);
      }
    }
    if (block.thread() >= 128) return;
    for (uint32_t turn = 0; turn < 2; ++turn) {
      block.Wait(full, turn & 1);
      float sums[32];
      uint32_t piece[4];
      if (multiplies) {
        block.FenceProducts();
        block.Multiply<Bf16Format, 64>(sums, WgmmaRows(base + kA), WgmmaRows(base + kB), false);
        block.CommitProducts();
        if (waits_before_release) block.WaitForProducts<0>();
      } else if (waits_before_release) {
        block.LoadPiece(piece, base + kB + static_cast<uint32_t>(block.thread()) * 16);
      }
      block.Arrive(empty);
      if (!waits_before_release && multiplies) block.WaitForProducts<0>();
      if (!waits_before_release && !multiplies) {
        block.LoadPiece(piece, base + kB + static_cast<uint32_t>(block.thread()) * 16);
      }
    }
  });
}

TEST(Sm90Machine, ATileThatIsReleasedTooEarlyIsFound) {
  for (const bool multiplies : {true, false}) {
    for (uint64_t seed = 1; seed <= 16; ++seed) {
      EXPECT_EQ(LoadAgain(multiplies, true, seed), "");
      const std::string fault = LoadAgain(multiplies, false, seed);
      EXPECT_TRUE(fault.find("may still read") != std::string::npos ||
                  fault.find("after it began") != std::string::npos)
          << fault;
    }
  }
}

// Warps 0 to 3 hand each other pieces; `meets`: at a barrier between.
TEST(Sm90Machine, AccessesThatNothingOrdersAreFound) {
  const auto fault_of = [](bool meets, const auto& first, const auto& second) {
    return RunBlock({.threads = 128, .shared_bytes = kShared}, 0, 1, [&](const HostBlock& block) {
      first(block, block.SharedBase() + static_cast<uint32_t>(block.thread()) * 16);
      if (meets) block.SyncNamed(2, 128);
      second(block, block.SharedBase() + static_cast<uint32_t>(block.thread() ^ 64) * 16);
    });
  };
  const auto write = [](const HostBlock& block, uint32_t to) { block.StorePiece(to, {1, 2, 3, 4}); };
  const auto read = [](const HostBlock& block, uint32_t from) {
    uint32_t piece[4];
    block.LoadPiece(piece, from);
  };
  EXPECT_EQ(fault_of(true, write, read), "");
  EXPECT_EQ(fault_of(true, read, write), "");
  const std::string too_early = fault_of(false, write, read);
  EXPECT_TRUE(too_early.find("may not have written yet") != std::string::npos ||
              too_early.find("may still read") != std::string::npos)
      << too_early;
  EXPECT_NE(fault_of(false, read, write).find("may"), std::string::npos);
}

TEST(Sm90Machine, ArrivalsThatNobodyWaitsForAreFound) {
  const std::string fault = RunBlock({.threads = 128, .shared_bytes = kShared}, 0, 1, [](const HostBlock& block) {
    if (block.thread() < 32) block.ArriveNamed(3, 64);
  });
  EXPECT_NE(fault.find("arrivals at barrier 3"), std::string::npos) << fault;
}

TEST(Sm90Machine, LanesExchangeAndNamedBarriersMeet) {
  std::vector<float> out(128);
  const std::string fault = RunBlock({.threads = 256, .shared_bytes = kShared}, 0, 1, [&](const HostBlock& block) {
    if (block.thread() < 128) {
      block.SyncNamed(3, 256);
      out[static_cast<size_t>(block.thread())] = block.ShuffleXor(static_cast<float>(block.thread()), 5);
    } else {
      block.ArriveNamed(3, 256);
    }
  });
  ASSERT_EQ(fault, "");
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], static_cast<float>(i ^ 5));
}

}  // namespace
}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// The bit contract: a row has the same bits in a whole prefill, in any chunking, alone in decode, with any neighbours,
// in any page order, on any number of threads, at any repetition.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {
namespace {

// More than two EFFICIENT chunks and ten FLASH tiles; a multiple of neither.
constexpr int32_t kBitsLength = 683;
constexpr uint64_t kSeed = 42;

struct BitsCase {
  DType dtype;
  AttentionBackend backend;
  std::string variant;
  HeadShape shape;
  int32_t window;  // 0: none
  float softcap;   // 0: none
  bool alibi = false;
  bool sinks = false;
};

std::vector<BitsCase> AllBitsCases() {
  std::vector<BitsCase> cases;
  for (const std::string& variant : AvailableCpuVariants()) {
    for (const DType dtype : kKvDTypes) {
      for (const AttentionBackend backend : kBackends) {
        for (const HeadShape& shape : {HeadShape{1, 1, 64}, HeadShape{8, 1, 20}, HeadShape{6, 2, 9}}) {
          cases.push_back({dtype, backend, variant, shape, 0, 0.0F});
        }
        cases.push_back({dtype, backend, variant, {6, 2, 9}, 37, 0.0F});
        cases.push_back({dtype, backend, variant, {2, 1, 64}, 200, 1.5F});
        cases.push_back({dtype, backend, variant, {3, 1, 64}, 0, 0.0F, true});
        cases.push_back({dtype, backend, variant, {6, 2, 9}, 37, 0.0F, false, true});
      }
      if (variant == "portable") continue;  // what follows is about registers of its vectors
      // One row with values of eight vectors and of one, and with a window; few rows with values of six vectors, and of
      // eight of which the last is cut.
      cases.push_back({dtype, AttentionBackend::kFlash, variant, {1, 1, 128}, 0, 0.0F});
      cases.push_back({dtype, AttentionBackend::kFlash, variant, {1, 1, 80}, 0, 0.0F});
      cases.push_back({dtype, AttentionBackend::kFlash, variant, {1, 1, 64}, 300, 0.0F});
      cases.push_back({dtype, AttentionBackend::kFlash, variant, {3, 1, 96}, 0, 0.0F});
      cases.push_back({dtype, AttentionBackend::kFlash, variant, {2, 1, 120}, 0, 0.0F});
    }
  }
  return cases;
}

class BitContractTest : public ::testing::TestWithParam<BitsCase> {
 protected:
  std::vector<float> Run(std::vector<BatchSequence> sequences, int threads = 2, uint64_t layout_seed = 1) {
    PagedBatch batch(GetParam().dtype, GetParam().shape, std::move(sequences), layout_seed);
    batch.window = GetParam().window;
    batch.softcap = GetParam().softcap;
    SetAlibi(&batch);
    if (GetParam().sinks) batch.sinks.assign(static_cast<size_t>(GetParam().shape.num_heads), 0.75F);
    return batch.Run(GetParam().backend, GetParam().variant, threads);
  }
  static void SetAlibi(PagedBatch* batch) {
    if (GetParam().alibi) batch->alibi_slopes = {0.25F, 0.0625F, 0.015625F};
  }
  size_t row_floats() const {
    return static_cast<size_t>(GetParam().shape.num_heads) * static_cast<size_t>(GetParam().shape.head_dim);
  }
  // Whether rows [first, first + count) of the whole prefill equal the given ones, bit for bit.
  bool SameRows(int32_t first, int32_t count, const float* rows) {
    return std::memcmp(whole_.data() + static_cast<size_t>(first) * row_floats(), rows,
                       static_cast<size_t>(count) * row_floats() * sizeof(float)) == 0;
  }

  void ExpectChunks(int32_t first, int32_t end, int32_t largest, std::mt19937_64* random);

  void SetUp() override { whole_ = Run({{kSeed, 0, kBitsLength}}); }
  std::vector<float> whole_;
};

// On both sides of the ends of pages (16), vectors, tiles (128 keys), chunks (256) and blocks of rows (144); and
// numbers of keys with every remainder by a page or a vector, early and late.
TEST_P(BitContractTest, DecodeGivesThePrefillsBits) {
  std::set<int32_t> positions;
  for (int32_t position = 0; position < 18; ++position) positions.insert(position);
  for (const int32_t end : {32, 48, 64, 72, 128, 144, 192, 256, 288, 320, 384, 432, 448, 512, 576, 640}) {
    positions.insert({end - 1, end});
  }
  for (int32_t position = 641; position < kBitsLength; position += 3) positions.insert(position);
  for (const int32_t position : positions) {
    EXPECT_TRUE(SameRows(position, 1, Run({{kSeed, position, 1}}).data())) << position;
  }
}

// From `first` to `end` in random chunks of at most `largest` tokens.
void BitContractTest::ExpectChunks(int32_t first, int32_t end, int32_t largest, std::mt19937_64* random) {
  while (first < end) {
    const int32_t count =
        std::min<int32_t>(end - first, 1 + static_cast<int32_t>((*random)() % static_cast<uint64_t>(largest)));
    EXPECT_TRUE(SameRows(first, count, Run({{kSeed, first, count}}).data())) << first << " + " << count;
    first += count;
  }
}

TEST_P(BitContractTest, AnyChunkingGivesThePrefillsBits) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2; ++trial) ExpectChunks(0, kBitsLength, 200, &random);
  ExpectChunks(0, 40, 9, &random);
  ExpectChunks(130, 160, 9, &random);
  ExpectChunks(240, 270, 9, &random);
  ExpectChunks(650, kBitsLength, 9, &random);
}

TEST_P(BitContractTest, NeighboursAndPageOrderDoNotMatter) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<BatchSequence> sequences;
    const size_t place = random() % 4;
    const auto first = static_cast<int32_t>(random() % kBitsLength);
    const auto count = static_cast<int32_t>(1 + random() % static_cast<uint64_t>(std::min(kBitsLength - first, 70)));
    for (size_t i = 0; i < 5; ++i) {
      const auto length = static_cast<int32_t>(random() % 90);
      const auto before = static_cast<int32_t>(random() % 600);
      sequences.push_back({100 + i, before, length, i % 2 == 0 ? 0 : INT32_MAX});
    }
    sequences[place] = {kSeed, first, count};
    size_t rows_before = 0;
    for (size_t i = 0; i < place; ++i) rows_before += static_cast<size_t>(sequences[i].query_len);
    const std::vector<float> out = Run(sequences, 2, random());
    EXPECT_TRUE(SameRows(first, count, out.data() + rows_before * row_floats())) << first << " + " << count;
  }
}

TEST_P(BitContractTest, TheNumberOfThreadsDoesNotMatter) {
  EXPECT_TRUE(SameRows(0, kBitsLength, Run({{kSeed, 0, kBitsLength}}, 3).data()));
  for (const int threads : {1, 3, 8}) {
    EXPECT_TRUE(SameRows(600, 1, Run({{kSeed, 600, 1}}, threads).data())) << threads;
    EXPECT_TRUE(SameRows(640, 43, Run({{kSeed, 640, 43}}, threads).data())) << threads;
  }
}

// FLASH takes blocks of another size where there are many of them. On two threads one sequence is too few.
TEST_P(BitContractTest, ManyLongNeighboursDoNotMatter) {
  const uint64_t num_sequences = GetParam().backend == AttentionBackend::kFlash ? 16 : 6;
  std::vector<BatchSequence> sequences;
  for (uint64_t i = 0; i < num_sequences; ++i) sequences.push_back({100 + i, 0, 150 + static_cast<int32_t>(i)});
  sequences[5] = {kSeed, 0, kBitsLength};
  size_t rows_before = 0;
  for (size_t i = 0; i < 5; ++i) rows_before += static_cast<size_t>(sequences[i].query_len);
  const std::vector<float> out = Run(sequences);
  EXPECT_TRUE(SameRows(0, kBitsLength, out.data() + rows_before * row_floats()));
}

TEST_P(BitContractTest, TheCallsBoundsDoNotMatter) {
  for (const int32_t slack : {1, 77, 3000}) {
    PagedBatch batch(GetParam().dtype, GetParam().shape, {{kSeed, 640, 43}});
    batch.window = GetParam().window;
    batch.softcap = GetParam().softcap;
    SetAlibi(&batch);
    if (GetParam().sinks) batch.sinks.assign(static_cast<size_t>(GetParam().shape.num_heads), 0.75F);
    batch.slack = slack;
    EXPECT_TRUE(SameRows(640, 43, batch.Run(GetParam().backend, GetParam().variant, 2).data())) << slack;
  }
}

TEST_P(BitContractTest, RepetitionsAreEqual) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(SameRows(500, 60, Run({{kSeed, 500, 60}}, 4).data())) << i;
}

std::string BitsCaseName(const ::testing::TestParamInfo<BitsCase>& test) {
  return std::string(Name(test.param.backend)) + "_" + Name(test.param.dtype) + "_" + test.param.variant + "_d" +
         std::to_string(test.param.shape.head_dim) + "_w" + std::to_string(test.param.window) +
         (test.param.alibi ? "_alibi" : "") + (test.param.sinks ? "_sinks" : "");
}

INSTANTIATE_TEST_SUITE_P(Grid, BitContractTest, ::testing::ValuesIn(AllBitsCases()), BitsCaseName);

}  // namespace
}  // namespace dunlin::kernels::testing

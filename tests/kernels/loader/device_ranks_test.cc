// SPDX-License-Identifier: Apache-2.0
// Linked ranks (kernels/api/rank_links.h) through a device's table. Two ranks have a device each where the machine has
// two, else the one device twice, as the fake module always, whose columns go through memory of the host where it has
// no peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernels/loader/device_fixture.h"

namespace dunlin::kernels {
namespace {

constexpr int32_t kRanks = 2;

struct RankPlace {
  const char* module;
  bool no_peers = false;  // of the fake module
};
void PrintTo(const RankPlace& place, std::ostream* out) {
  *out << place.module << (place.no_peers ? " without peers" : "");
}

// Rows of which each rank has some columns, with a copy of all in each rank's memory.
class DeviceRanksTest : public ::testing::TestWithParam<RankPlace> {
 protected:
  void SetUp() override {
    std::string error;
    cpu_ = OpenDevice(DeviceKind::kCpu, {1, "portable"}, &error);
    ASSERT_NE(cpu_, nullptr) << error;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      auto device = OpenModule(GetParam().module, &error, rank);
      if (device == nullptr && rank > 0) {
        apart_ = false;
        device = OpenModule(GetParam().module, &error, 0);
      }
      if (device == nullptr) GTEST_SKIP() << "no device behind " << GetParam().module << ": " << error;
      contexts_.push_back(device->context);
      devices_.push_back(std::move(device));
    }
    if (GetParam().no_peers) setenv(kFakeNoPeers, "no peers", 1);
    links_ = ops().link_ranks(contexts_.data(), kRanks, &by_host_);
    unsetenv(kFakeNoPeers);
    ASSERT_NE(links_, nullptr) << by_host_;
    EXPECT_TRUE(!GetParam().no_peers || by_host_ == "no peers") << by_host_;
  }
  void TearDown() override {
    if (links_ != nullptr) ops().unlink_ranks(links_);
  }

  const DeviceOps& ops() const { return *devices_.front()->ops; }

  // Each rank on a thread of its own.
  static void RunRanks(const std::function<void(int32_t rank)>& body) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < kRanks; ++rank) threads.emplace_back(body, rank);
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<Device> cpu_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<DeviceContext*> contexts_;
  RankLinks* links_ = nullptr;
  std::string by_host_;  // why columns go through memory of the host; empty: they do not
  bool apart_ = true;    // each rank has a device
};

struct Shape {
  int32_t num_rows;
  int32_t columns[kRanks];
  int32_t total() const { return columns[0] + columns[1]; }
};

// The parameters of a rank, out of its own columns, contiguous, to all copies.
ShareColumnsParams ParamsOf(RankLinks* links, const Shape& shape, int32_t rank, const float* in,
                            const std::vector<float*>& copies) {
  ShareColumnsParams params{};
  params.links = links;
  params.rank = rank;
  params.in = in;
  params.in_stride = shape.columns[rank];
  for (size_t to = 0; to < copies.size(); ++to) params.out[to] = copies[to] + (rank == 0 ? 0 : shape.columns[0]);
  params.out_stride = shape.total();
  params.num_rows = shape.num_rows;
  params.num_blocks = 1;
  params.columns = shape.columns[rank];
  return params;
}

// What ranks share, allocated before any of them waits for another.
struct RankArrays {
  RankArrays(const std::vector<std::unique_ptr<Device>>& devices, const Shape& shape) {
    const int32_t rows = std::max(1, shape.num_rows);
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      Device& device = *devices[rank];
      copies.push_back(Zeros(device, int64_t{rows} * shape.total()));
      own.push_back(Zeros(device, int64_t{rows} * shape.columns[rank]));
      at.push_back(copies.back()->data());
      EXPECT_EQ(device.ops->synchronize(device.context), KernelStatus::kOk);
    }
  }
  static std::unique_ptr<Array<float>> Zeros(Device& device, int64_t count) {
    return std::make_unique<Array<float>>(device, std::vector<float>(static_cast<size_t>(count), 0.0F));
  }

  std::vector<std::unique_ptr<Array<float>>> copies;
  std::vector<std::unique_ptr<Array<float>>> own;
  std::vector<float*> at;  // of the copies
};

std::vector<float> Joined(const Shape& shape, const std::vector<float>& left, const std::vector<float>& right) {
  std::vector<float> rows;
  for (int32_t row = 0; row < shape.num_rows; ++row) {
    const std::vector<float>* parts[] = {&left, &right};
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      const auto begin = parts[rank]->begin() + int64_t{row} * shape.columns[rank];
      rows.insert(rows.end(), begin, begin + shape.columns[rank]);
    }
  }
  return rows;
}

TEST_P(DeviceRanksTest, EveryRankHasAllColumns) {
  for (const Shape& shape : {Shape{1, {4096, 4096}}, Shape{5, {3, 7}}, Shape{64, {16, 32}}, Shape{300, {2048, 1024}}}) {
    SCOPED_TRACE(std::to_string(shape.num_rows) + " rows of " + std::to_string(shape.total()));
    const RankArrays arrays(devices_, shape);
    std::vector<float> own[kRanks];
    std::vector<float> got[kRanks];
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      own[rank] = Random(int64_t{shape.num_rows} * shape.columns[rank], static_cast<uint32_t>(rank + 1));
    }
    RunRanks([&](int32_t rank) {
      const auto index = static_cast<size_t>(rank);
      DeviceContext* context = contexts_[index];
      float* in = arrays.own[index]->data();
      EXPECT_EQ(ops().copy_to_device(context, in, own[rank].data(), own[rank].size() * sizeof(float)),
                KernelStatus::kOk);
      EXPECT_EQ(ops().share_columns(context, ParamsOf(links_, shape, rank, in, arrays.at)), KernelStatus::kOk);
      got[rank] = arrays.copies[index]->Read();
    });
    const std::vector<float> expected = Joined(shape, own[0], own[1]);
    for (const std::vector<float>& rows : got) EXPECT_EQ(rows, expected);
  }
}

// The graph's launches count meetings as others do.
TEST_P(DeviceRanksTest, RecordedMeetingsAreRepeated) {
  const Shape shape{3, {8, 4}};
  const RankArrays arrays(devices_, shape);
  std::atomic<int> wrong{0};
  RunRanks([&](int32_t rank) {
    const auto index = static_cast<size_t>(rank);
    Device& device = *devices_[index];
    float* in = arrays.own[index]->data();
    const ShareColumnsParams params = ParamsOf(links_, shape, rank, in, arrays.at);
    ShareColumnsParams alone = params;  // what they read may be written again
    alone.num_rows = 0;
    EXPECT_EQ(ops().share_columns(device.context, params), KernelStatus::kOk);  // not recorded: its code is loaded
    EXPECT_EQ(ops().share_columns(device.context, alone), KernelStatus::kOk);
    EXPECT_EQ(ops().synchronize(device.context), KernelStatus::kOk);
    ASSERT_TRUE(ops().begin_graph(device.context));
    EXPECT_EQ(ops().share_columns(device.context, params), KernelStatus::kOk);
    DeviceGraph* graph = ops().end_graph(device.context);
    ASSERT_NE(graph, nullptr);
    for (uint32_t round = 0; round < 4; ++round) {
      const auto values = [&](int32_t of) {
        return Random(int64_t{shape.num_rows} * shape.columns[of], 10 * round + static_cast<uint32_t>(of));
      };
      const std::vector<float> own = values(rank);
      EXPECT_EQ(ops().copy_to_device(device.context, in, own.data(), own.size() * sizeof(float)), KernelStatus::kOk);
      EXPECT_EQ(ops().launch_graph(device.context, graph), KernelStatus::kOk);
      if (arrays.copies[index]->Read() != Joined(shape, values(0), values(1))) ++wrong;
      EXPECT_EQ(ops().share_columns(device.context, alone), KernelStatus::kOk);
    }
    EXPECT_EQ(ops().synchronize(device.context), KernelStatus::kOk);
    ops().destroy_graph(device.context, graph);
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(DeviceRanksTest, StoppingEndsTheWaitForARankThatNeverComes) {
  ShareColumnsParams params{};
  params.links = links_;
  params.num_blocks = 1;
  std::atomic<bool> ended{false};
  std::thread waiting([&] {
    EXPECT_EQ(ops().share_columns(contexts_[0], params), KernelStatus::kOk);
    EXPECT_EQ(ops().synchronize(contexts_[0]), KernelStatus::kOk);
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(ended);
  ops().stop_ranks(links_);
  waiting.join();
  params.rank = 1;  // and from then on nobody waits
  EXPECT_EQ(ops().share_columns(contexts_[1], params), KernelStatus::kOk);
  EXPECT_EQ(ops().synchronize(contexts_[1]), KernelStatus::kOk);
}

// A device that has all heads norms them on the way into the pages, ranks norm rows that they have gathered.
TEST_P(DeviceRanksTest, ANormOverAllHeadsHasTheBitsOfOneOfGatheredRows) {
  constexpr int32_t kTokens = 5;
  constexpr int32_t kHeads = 6;
  constexpr int32_t kKvHeads = 2;
  constexpr int32_t kDim = 100;
  constexpr int32_t kQueries = kHeads * kDim;
  constexpr int32_t kFused = (kHeads + 2 * kKvHeads) * kDim;
  Device& device = *devices_.front();
  const KvLayout layout = MakeKvLayout(DType::kF32, {.num_layers = 1, .num_kv_heads = kKvHeads, .head_dim = kDim});
  const std::vector<float> fused = Random(int64_t{kTokens} * kFused, 3);
  std::vector<float> gathered;
  for (int32_t token = 0; token < kTokens; ++token) {
    const auto row = fused.begin() + int64_t{token} * kFused;
    gathered.insert(gathered.end(), row, row + kQueries);
  }
  const Array<float> qkv(device, fused);
  const Array<float> rows(device, gathered);
  const Array<float> query_norm(device, Random(kQueries, 5));
  const Array<float> key_norm(device, Random(int64_t{kKvHeads} * kDim, 7));
  const Array<unsigned char> pool(device, std::vector<unsigned char>(layout.page_bytes));
  const Array<int32_t> pages(device, std::vector<int32_t>(kTokens, 0));
  const Array<int32_t> slots(device, {0, 1, 2, 3, 4});
  RotateAndStoreKvParams heads{};
  heads.qkv = qkv.data();
  heads.num_heads = kHeads;
  heads.kv_pool = pool.data();
  heads.layout = layout;
  heads.token_page = pages.data();
  heads.token_slot = slots.data();
  heads.num_tokens = kTokens;
  heads.query_norm = query_norm.data();
  heads.key_norm = key_norm.data();
  heads.norm_epsilon = 1e-6F;
  heads.joint_norms = true;
  EXPECT_EQ(ops().rotate_and_store_kv(device.context, heads), KernelStatus::kOk);
  Activation width{.columns = kQueries};
  NormParams norm{};
  norm.kind = NormKind::kRmsNorm;
  norm.in = norm.rows_out = rows.data();
  norm.weight = query_norm.data();
  norm.epsilon = heads.norm_epsilon;
  norm.out = &width;
  norm.num_rows = kTokens;
  EXPECT_EQ(ops().norm(device.context, norm), KernelStatus::kOk);
  const std::vector<float> fused_after = qkv.Read();
  const std::vector<float> rows_after = rows.Read();
  EXPECT_NE(rows_after, gathered);
  for (size_t token = 0; token < kTokens; ++token) {
    const auto row = fused_after.begin() + static_cast<int64_t>(token) * kFused;
    const auto expected = rows_after.begin() + static_cast<int64_t>(token) * kQueries;
    EXPECT_TRUE(std::equal(row, row + kQueries, expected)) << "token " << token;
  }
}

TEST_P(DeviceRanksTest, RefusesOneRankAndMoreThanItLinks) {
  std::string reason;
  const std::vector<DeviceContext*> many(kMaxLinkedRanks + 1, contexts_[0]);
  EXPECT_EQ(ops().link_ranks(many.data(), 1, &reason), nullptr);
  EXPECT_EQ(ops().link_ranks(many.data(), kMaxLinkedRanks + 1, &reason), nullptr);
  EXPECT_NE(reason.find("2 to 8"), std::string::npos) << reason;
}

// Of the CUDA module alone.
class DeviceRanksSpeed : public DeviceRanksTest {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceRanksSpeed);

// What a meeting costs: without rows, with those of a decode step and of a prompt. Two devices only.
TEST_P(DeviceRanksSpeed, MeetingsTakeMicroseconds) {
  if (!apart_) GTEST_SKIP() << "one CUDA device: ranks on one and the same do not show what links give";
  for (const Shape& shape : {Shape{0, {4096, 4096}}, Shape{1, {4096, 4096}}, Shape{32, {4096, 4096}},
                             Shape{2048, {4096, 4096}}, Shape{2048, {14336, 14336}}}) {
    const RankArrays arrays(devices_, shape);
    constexpr int kMeetings = 200;
    double microseconds[kRanks] = {};
    RunRanks([&](int32_t rank) {
      const auto index = static_cast<size_t>(rank);
      const Device& device = *devices_[index];
      const ShareColumnsParams params = ParamsOf(links_, shape, rank, arrays.own[index]->data(), arrays.at);
      const auto run = [&](int count) {
        for (int i = 0; i < count; ++i) (void)ops().share_columns(device.context, params);
        EXPECT_EQ(ops().synchronize(device.context), KernelStatus::kOk);
      };
      run(20);
      const auto begin = std::chrono::steady_clock::now();
      run(kMeetings);
      microseconds[rank] =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / kMeetings;
    });
    const double each = std::max(microseconds[0], microseconds[1]);
    const double bytes = 4.0 * shape.num_rows * shape.columns[0];
    std::printf("meeting of 2 devices by %s memory, %d rows of %d floats: %.2f us, %.1f GB/s a way\n",
                by_host_.empty() ? "peer" : "host", shape.num_rows, shape.total(), each, bytes / each * 1e-3);
    const double limit = by_host_.empty() ? 20.0 + bytes / 20e3 : 50.0 + bytes / 10e3;
    EXPECT_LT(each, limit) << "20 us and 20 GB/s, less than PCIe 4.0 has; by the host half of it, both ways";
  }
}

INSTANTIATE_TEST_SUITE_P(Fake, DeviceRanksTest,
                         ::testing::Values(RankPlace{DUNLIN_MODULE_DIR "/libfake_cuda.so"},
                                           RankPlace{DUNLIN_MODULE_DIR "/libfake_cuda.so", true}));
#ifdef DUNLIN_CUDA_MODULE
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceRanksTest, ::testing::Values(RankPlace{DUNLIN_CUDA_MODULE}));
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceRanksSpeed, ::testing::Values(RankPlace{DUNLIN_CUDA_MODULE}));
#endif

}  // namespace
}  // namespace dunlin::kernels

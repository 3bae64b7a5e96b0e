// SPDX-License-Identifier: Apache-2.0
// The file of chosen algorithms: truncated, damaged, from another machine, and with two writers.
#include "kernels/cuda/gemm/cublaslt/algorithm_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace dunlin::kernels::cuda {
namespace {

using ::testing::HasSubstr;

constexpr char kHere[] = "GPU A sm_90 driver 13000 runtime 13000 cuBLASLt 130100";

MatmulAlgo Algo(uint64_t seed) {
  MatmulAlgo algo{};
  for (uint64_t& word : algo.data) word = seed++ * 0x9E3779B97F4A7C15U;
  return algo;
}

class AlgorithmStoreTest : public ::testing::Test {
 protected:
  AlgorithmStoreTest() {
    std::string folder = "/tmp/dunlin_algorithms_XXXXXX";
    folder_ = mkdtemp(folder.data());
    path_ = (folder_ / "algorithms").string();
  }
  ~AlgorithmStoreTest() override { std::filesystem::remove_all(folder_); }

  AlgorithmStore Here() const { return {path_, kHere}; }
  // A file with two GEMMs.
  std::string TextOfTwo() {
    AlgorithmStore store = Here();
    store.Add("one", Algo(1));
    store.Add("two", Algo(2));
    EXPECT_EQ(store.Write(), "");
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void PutText(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  // Nothing is loaded, and the next write replaces the file.
  void ExpectIgnored(const std::string& reason) const {
    AlgorithmStore store = Here();
    EXPECT_THAT(store.Read(), HasSubstr("the cuBLASLt algorithm cache " + path_ + " is ignored and made anew: "));
    EXPECT_THAT(store.Read(), HasSubstr(reason));
    EXPECT_EQ(store.Find("one"), nullptr);
    EXPECT_EQ(store.Find("two"), nullptr);
    store.Add("three", Algo(3));
    EXPECT_EQ(store.Write(), "");
    AlgorithmStore next = Here();
    EXPECT_EQ(next.Read(), "");
    EXPECT_NE(next.Find("three"), nullptr);
    EXPECT_EQ(next.Find("one"), nullptr);
  }
  void ExpectHas(const AlgorithmStore& store, const std::string& product, uint64_t seed) const {
    const MatmulAlgo* algo = store.Find(product);
    ASSERT_NE(algo, nullptr) << product;
    for (int i = 0; i < 8; ++i) EXPECT_EQ(algo->data[i], Algo(seed).data[i]) << product;
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(AlgorithmStoreTest, ChoicesReachTheNextProcess) {
  AlgorithmStore none = Here();
  EXPECT_EQ(none.Read(), "") << "no file is no reason";
  TextOfTwo();
  AlgorithmStore store = Here();
  EXPECT_EQ(store.Read(), "");
  ExpectHas(store, "one", 1);
  ExpectHas(store, "two", 2);
  EXPECT_EQ(store.Find("three"), nullptr);
}

TEST_F(AlgorithmStoreTest, ATruncatedFileIsIgnoredWhereverItEnds) {
  const std::string text = TextOfTwo();
  for (size_t length = 0; length < text.size(); ++length) {
    PutText(text.substr(0, length));
    ASSERT_NE(Here().Read(), "") << length;
  }
  PutText(text.substr(0, text.size() / 2));
  ExpectIgnored("it is torn or damaged");
}

TEST_F(AlgorithmStoreTest, AFileWithAFlippedBitIsIgnored) {
  const std::string text = TextOfTwo();
  for (size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    PutText(damaged);
    AlgorithmStore store = Here();
    ASSERT_NE(store.Read(), "") << at;
    ASSERT_EQ(store.Find("two"), nullptr) << at;
  }
  ExpectIgnored("");
}

TEST_F(AlgorithmStoreTest, AFileOfAnotherPlatformIsIgnored) {
  for (const char* there : {"GPU B sm_90 driver 13000 runtime 13000 cuBLASLt 130100",
                            "GPU A sm_90 driver 12090 runtime 13000 cuBLASLt 130100",
                            "GPU A sm_90 driver 13000 runtime 12090 cuBLASLt 130100",
                            "GPU A sm_90 driver 13000 runtime 13000 cuBLASLt 130200"}) {
    AlgorithmStore other(path_, there);
    other.Add("one", Algo(1));
    ASSERT_EQ(other.Write(), "");
    ExpectIgnored(std::string("it is of \"") + there + "\"; this is \"" + kHere + "\"");
  }
}

TEST_F(AlgorithmStoreTest, AnythingElseIsIgnored) {
  std::string text = TextOfTwo();
  text.replace(text.find('1'), 1, "2");
  PutText(text);
  ExpectIgnored("it is not a file of this version's algorithms");
  PutText(std::string((size_t{4} << 20) + 1, 'x'));
  ExpectIgnored("it has more than 4194304 bytes");
}

TEST_F(AlgorithmStoreTest, TheFirstWriterWinsWhereTwoProcessesChose) {
  AlgorithmStore first = Here();
  AlgorithmStore second = Here();
  first.Add("both", Algo(1));
  second.Add("both", Algo(2));
  second.Add("more", Algo(3));
  ASSERT_EQ(first.Write(), "");
  ASSERT_EQ(second.Write(), "");
  ExpectHas(second, "both", 2);  // this process keeps the algorithm that it has used
  AlgorithmStore next = Here();
  ASSERT_EQ(next.Read(), "");
  ExpectHas(next, "both", 1);
  ExpectHas(next, "more", 3);
}

TEST_F(AlgorithmStoreTest, ConcurrentWritersLeaveACompleteFile) {
  pid_t writers[2];
  for (int i = 0; i < 2; ++i) {
    writers[i] = fork();
    if (writers[i] != 0) continue;
    AlgorithmStore store = Here();
    bool written = true;
    for (int n = 0; n < 100; ++n) {
      store.Add(std::to_string(i) + " " + std::to_string(n), Algo(static_cast<uint64_t>(n)));
      written = store.Write().empty() && written;
    }
    _exit(written ? 0 : 1);
  }
  for (int reads = 0; reads < 200; ++reads) EXPECT_EQ(Here().Read(), "") << "never a part of a file";
  for (const pid_t writer : writers) {
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  AlgorithmStore store = Here();
  EXPECT_EQ(store.Read(), "");
  EXPECT_TRUE(store.Find("0 99") != nullptr || store.Find("1 99") != nullptr) << "the last writer's";
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++files;
  EXPECT_EQ(files, 1) << "nothing is left beside it";
}

TEST_F(AlgorithmStoreTest, AFileThatCannotBeWrittenIsReported) {
  AlgorithmStore store((folder_ / "nowhere" / "algorithms").string(), kHere);
  EXPECT_EQ(store.Write(), "") << "nothing to write";
  store.Add("one", Algo(1));
  EXPECT_THAT(store.Write(), HasSubstr("nowhere/algorithms cannot be written: No such file or directory"));
  std::filesystem::create_directory(path_);  // a folder is in the file's place
  AlgorithmStore blocked = Here();
  blocked.Add("one", Algo(1));
  EXPECT_THAT(blocked.Write(), HasSubstr("cannot be written: it is not a regular file"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(AlgorithmStoreTest, APipeIsNotWaitedForAndStays) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  AlgorithmStore store = Here();
  EXPECT_THAT(store.Read(), HasSubstr("is ignored and made anew: it is not a regular file"));
  store.Add("one", Algo(1));
  EXPECT_THAT(store.Write(), HasSubstr("cannot be written: it is not a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(AlgorithmStoreTest, WithoutAPathNothingIsWritten) {
  AlgorithmStore store("", kHere);
  EXPECT_FALSE(store.on_disk());
  store.Add("one", Algo(1));
  EXPECT_EQ(store.Write(), "");
  EXPECT_EQ(store.Read(), "");
  ExpectHas(store, "one", 1);
}

}  // namespace
}  // namespace dunlin::kernels::cuda

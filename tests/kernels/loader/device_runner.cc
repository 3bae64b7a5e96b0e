// SPDX-License-Identifier: Apache-2.0
// The devices behind modules, as runners: the fake one always, and libdunlin_cuda.so where it was built and its device
// opens.
#include <gtest/gtest.h>

#include "tests/kernels/attention/attention_runner.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/loader/device_memory.h"

namespace dunlin::kernels::testing {
namespace {

template <typename T>
std::vector<T> Copied(const void* host, size_t count) {
  const T* first = static_cast<const T*>(host);
  return host == nullptr ? std::vector<T>() : std::vector<T>(first, first + count);
}

class DeviceRunner : public AttentionRunner {
 public:
  DeviceRunner(std::unique_ptr<Device> device, const PageFormat& pages, bool is_cuda)
      : device_(std::move(device)), pages_(pages), is_cuda_(is_cuda) {}

  bool Takes(AttentionBackend backend, const AttentionTraits& traits) const override {
    return device_->ops->supports_attention(device_->context, backend, traits, nullptr);
  }
  const PageFormat& pages() const override { return pages_; }
  std::vector<DType> RoundingsOf(AttentionBackend backend, DType dtype, int32_t head_dim) const override {
    if (!is_cuda_) return {testing::RoundingOf(backend, dtype, head_dim, AvailableCpuVariants().front())};
    return CudaRoundingsOf(backend, dtype);
  }
  size_t grid_cases() const override { return is_cuda_ ? 2200 : 0; }
  bool runs_costly_lengths() const override { return is_cuda_; }

  std::vector<float> Paged(const PagedBatch& batch, AttentionBackend backend, Division division) const override {
    PagedAttentionParams params = batch.Params(backend, nullptr);
    const Array<float> query(*device_, Copied<float>(params.query, batch.query_floats()));
    const Array<float> out(*device_, std::vector<float>(batch.out_floats(), NAN));
    const Array<unsigned char> pool(*device_, Copied<unsigned char>(params.kv_pool, batch.pool_bytes()));
    const Array<int32_t> table(*device_, Copied<int32_t>(params.page_table, batch.page_table_entries()));
    const Array<SequenceSpan> spans(*device_, batch.spans());
    const Array<float> slopes(*device_, batch.alibi_slopes.empty() ? std::vector<float>(1) : batch.alibi_slopes);
    const Array<float> sinks(*device_, batch.sinks.empty() ? std::vector<float>(1) : batch.sinks);
    const Array<float> key_bias(*device_, batch.key_bias.empty() ? std::vector<float>(1) : batch.key_bias);
    if (params.alibi_slopes != nullptr) params.alibi_slopes = slopes.data();
    if (params.bias.data != nullptr) params.bias.data = key_bias.data();
    if (params.sinks != nullptr) params.sinks = sinks.data();
    params.query = query.data();
    params.out = out.data();
    params.kv_pool = pool.data();
    params.page_table = table.data();
    params.sequences = spans.data();
    const auto run = [&](size_t bytes) {
      const Array<unsigned char> workspace(*device_, std::vector<unsigned char>(bytes, 0xFF));
      params.workspace = workspace.data();
      params.workspace_bytes = bytes;
      const KernelStatus status = device_->ops->paged_attention(device_->context, params);
      EXPECT_EQ(device_->ops->synchronize(device_->context), KernelStatus::kOk);
      return status;
    };
    // Without memory for parts, one block of the CUDA device walks through all keys; a kernel that needs memory for
    // something else refuses.
    if (is_cuda_ && division == Division::kWhole && run(0) == KernelStatus::kOk) return out.Read();
    EXPECT_EQ(run(device_->ops->paged_attention_workspace(device_->context, backend, batch.Plan())), KernelStatus::kOk)
        << Name(backend);
    return out.Read();
  }

  std::vector<float> Dense(const DenseProblem& problem, AttentionBackend backend) const override {
    DenseAttentionParams params = problem.Params(backend, nullptr);
    const auto bytes_of = [](int64_t count, DType dtype) { return static_cast<size_t>(count) * SizeOf(dtype); };
    const int64_t kv_rows = int64_t{params.batch} * params.num_kv_heads * params.kv_len;
    const int64_t q_rows = int64_t{params.batch} * params.num_heads * params.q_len;
    const int32_t v_head_dim = params.v_head_dim == 0 ? params.head_dim : params.v_head_dim;
    const auto tensor = [this](const void* host, size_t bytes) {
      return Array<unsigned char>(*device_, Copied<unsigned char>(host, bytes));
    };
    const auto q = tensor(params.q, bytes_of(q_rows * params.head_dim, params.dtype));
    const auto k = tensor(params.k, bytes_of(kv_rows * params.head_dim, params.dtype));
    const auto v = tensor(params.v, bytes_of(kv_rows * v_head_dim, params.dtype));
    const auto slopes = tensor(params.alibi_slopes, static_cast<size_t>(params.num_heads) * sizeof(float));
    const auto bias = tensor(params.bias.data, problem.bias_bytes());
    const auto mask = tensor(params.mask.data, problem.mask_bytes());
    const Array<unsigned char> out(*device_, std::vector<unsigned char>(problem.out_bytes(), 0xFF));
    params.q = q.data();
    params.k = k.data();
    params.v = v.data();
    params.out = out.data();
    if (params.alibi_slopes != nullptr) params.alibi_slopes = reinterpret_cast<const float*>(slopes.data());
    if (params.bias.data != nullptr) params.bias.data = bias.data();
    if (params.mask.data != nullptr) params.mask.data = mask.data();
    params.workspace_bytes = device_->ops->dense_attention_workspace(device_->context, params);
    const Array<unsigned char> workspace(*device_, std::vector<unsigned char>(params.workspace_bytes, 0xFF));
    params.workspace = workspace.data();
    EXPECT_EQ(device_->ops->dense_attention(device_->context, params), KernelStatus::kOk) << Name(backend);
    const std::vector<unsigned char> bytes = out.Read();
    return Widen(params.dtype, reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  }

 private:
  const std::unique_ptr<Device> device_;
  const PageFormat& pages_;
  const bool is_cuda_;
};

const AttentionRunner* Opened(const char* path, const PageFormat& pages, bool is_cuda, std::string* reason) {
  std::unique_ptr<Device> device = OpenModule(path, reason);
  return device == nullptr ? nullptr : new DeviceRunner(std::move(device), pages, is_cuda);
}

const AttentionRunner* Fake(std::string* reason) {
  static const AttentionRunner* runner = Opened(DUNLIN_MODULE_DIR "/libfake_cuda.so", kCpuPages, false, reason);
  return runner;
}

const AttentionRunner* Cuda(std::string* reason) {
#ifdef DUNLIN_CUDA_MODULE
  static std::string why;
  static const AttentionRunner* runner = Opened(DUNLIN_CUDA_MODULE, kCudaPages, true, &why);
  *reason = why;
  return runner;
#else
  *reason = "the CUDA module was not built";
  return nullptr;
#endif
}

}  // namespace

const std::vector<RunnerRow>& Runners() {
  static const auto* runners = new std::vector<RunnerRow>{{"fake", Fake}, {"cuda", Cuda}};
  return *runners;
}

}  // namespace dunlin::kernels::testing

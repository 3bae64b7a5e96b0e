// SPDX-License-Identifier: Apache-2.0
// Attention over dense tensors: the sdpa and xformers cases, with inputs uniform in [0, 1).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "kernels/api/float_formats.h"
#include "tools/bench/attention_bench.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using kernels::DType;

constexpr int64_t kSampledRows = 32;

std::vector<std::byte> Narrow(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
  if (dtype == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  auto* out = reinterpret_cast<uint16_t*>(bytes.data());
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = dtype == DType::kF16 ? kernels::FloatToFp16(values[i]) : kernels::FloatToBf16(values[i]);
  }
  return bytes;
}

float Widen(const std::byte* bytes, size_t index, DType dtype) {
  if (dtype == DType::kF32) {
    float value = 0.0F;
    std::memcpy(&value, bytes + index * sizeof(value), sizeof(value));
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, bytes + index * sizeof(bits), sizeof(bits));
  return dtype == DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
}

class DenseRun {
 public:
  DenseRun(Session* session, const DenseProblem& problem)
      : session_(*session), device_(session->device()), p_(problem) {}

  absl::Status Run();

 private:
  absl::Status Fill(uint64_t tensor, int32_t heads, std::vector<float>* values, DeviceMemory* memory) const;
  absl::Status Prepare();
  Proof Check(const std::vector<std::byte>& out) const;
  Work WorkOf() const;

  Session& session_;
  kernels::Device* const device_;
  const DenseProblem p_;
  std::vector<float> q_;
  std::vector<float> k_;
  std::vector<float> v_;
  DeviceMemory memory_[4];  // q, k, v, out
  DeviceMemory workspace_;
  kernels::DenseAttentionParams params_{};
};

absl::Status DenseRun::Fill(uint64_t tensor, int32_t heads, std::vector<float>* values, DeviceMemory* memory) const {
  values->resize(static_cast<size_t>(p_.batch) * static_cast<size_t>(heads) * static_cast<size_t>(p_.tokens) *
                 static_cast<size_t>(p_.head_dim));
  FillUniform(StreamOf(session_.options().seed, tensor), *values);
  const std::vector<std::byte> bytes = Narrow(*values, p_.dtype);
  auto allocated = DeviceMemory::Allocate(device_, bytes.size(), "a tensor");
  if (!allocated.ok()) return allocated.status();
  *memory = *std::move(allocated);
  return memory->Write(bytes.data(), bytes.size());
}

absl::Status DenseRun::Prepare() {
  absl::Status status = Fill(0, p_.num_heads, &q_, &memory_[0]);
  if (status.ok()) status = Fill(1, p_.num_kv_heads, &k_, &memory_[1]);
  if (status.ok()) status = Fill(2, p_.num_kv_heads, &v_, &memory_[2]);
  if (!status.ok()) return status;
  auto out = DeviceMemory::Allocate(device_, memory_[0].bytes(), "the output");
  if (!out.ok()) return out.status();
  memory_[3] = *std::move(out);
  params_ = {.backend = p_.backend,
             .dtype = p_.dtype,
             .q = memory_[0].data(),
             .k = memory_[1].data(),
             .v = memory_[2].data(),
             .out = memory_[3].data(),
             .batch = p_.batch,
             .num_heads = p_.num_heads,
             .num_kv_heads = p_.num_kv_heads,
             .q_len = p_.tokens,
             .kv_len = p_.tokens,
             .head_dim = p_.head_dim,
             .causal = p_.causal,
             .alignment = kernels::CausalAlignment::kTopLeft,
             .scale = 1.0F / std::sqrt(static_cast<float>(p_.head_dim)),
             .workspace = nullptr,
             .workspace_bytes = 0};
  const size_t workspace_bytes = device_->ops->dense_attention_workspace(device_->context, params_);
  status = CheckMemory("the workspace", static_cast<double>(workspace_bytes));
  if (!status.ok()) return status;
  auto workspace = DeviceMemory::Allocate(device_, workspace_bytes, "the workspace");
  if (!workspace.ok()) return workspace.status();
  workspace_ = *std::move(workspace);
  params_.workspace = workspace_.data();
  params_.workspace_bytes = workspace_bytes;
  return absl::OkStatus();
}

Work DenseRun::WorkOf() const {
  const double pairs = SeenPairs(p_.tokens, p_.tokens, p_.causal) * static_cast<double>(p_.batch) * p_.num_heads;
  double bytes = 0.0;
  for (const DeviceMemory& tensor : memory_) bytes += static_cast<double>(tensor.bytes());
  return {.flops = 4.0 * pairs * p_.head_dim, .bytes = bytes, .peak = PeakOf(p_.dtype)};
}

Proof DenseRun::Check(const std::vector<std::byte>& out) const {
  const auto dim = static_cast<size_t>(p_.head_dim);
  std::vector<Sample> samples;
  std::vector<float> actual(dim);
  for (const int64_t row : SampleIndices(int64_t{p_.batch} * p_.num_heads * p_.tokens, kSampledRows)) {
    const int64_t token = row % p_.tokens;
    const int64_t head = row / p_.tokens % p_.num_heads;
    const int64_t batch = row / p_.tokens / p_.num_heads;
    const int64_t kv_head = batch * p_.num_kv_heads + head / (p_.num_heads / p_.num_kv_heads);
    const size_t first_key = static_cast<size_t>(kv_head * p_.tokens) * dim;
    for (size_t d = 0; d < dim; ++d) actual[d] = Widen(out.data(), static_cast<size_t>(row) * dim + d, p_.dtype);
    AppendSamples({.query = q_.data() + static_cast<size_t>(row) * dim,
                   .keys = k_.data() + first_key,
                   .values = v_.data() + first_key,
                   .stride = p_.head_dim,
                   .num_keys = p_.causal ? static_cast<int32_t>(token) + 1 : p_.tokens,
                   .head_dim = p_.head_dim,
                   .scale = static_cast<double>(params_.scale)},
                  actual, &samples);
  }
  Proof proof = CheckSamples(Sha256(out), samples, RelativeBound(p_.dtype));
  std::vector<float> all(out.size() / SizeOf(p_.dtype));
  for (size_t i = 0; i < all.size(); ++i) all[i] = Widen(out.data(), i, p_.dtype);
  RequireWritten(all, &proof);
  return proof;
}

absl::Status DenseRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = memory_[3].Poison();
  if (!status.ok()) return status;
  const absl::StatusOr<Timing> timing = Measure(session_.TimingFor(WorkOf()), [this](int64_t) {
    return StatusOf(device_->ops->dense_attention(device_->context, params_), "dense attention");
  });
  if (!timing.ok()) return timing.status();
  std::vector<std::byte> out(memory_[3].bytes());
  status = memory_[3].Read(out.data(), out.size());
  if (!status.ok()) return status;
  Record record;
  record.op = "attention";
  record.case_name = p_.case_name;
  record.backend = Name(p_.backend);
  record.precision = Name(p_.dtype);
  record.shape = {p_.batch, p_.num_heads, p_.tokens, p_.head_dim};
  record.work = WorkOf();
  record.timing = *timing;
  record.workspace_bytes = params_.workspace_bytes;
  for (const DeviceMemory& tensor : memory_) record.resident_bytes += tensor.bytes();
  record.proof = Check(out);
  record.extra["kv_heads"] = p_.num_kv_heads;
  record.extra["causal"] = p_.causal;
  session_.Add(std::move(record));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDense(Session* session, const DenseProblem& problem) {
  std::vector<std::string> reasons;
  const kernels::AttentionTraits traits{.dtype = problem.dtype,
                                        .head_dim = problem.head_dim,
                                        .num_heads = problem.num_heads,
                                        .num_kv_heads = problem.num_kv_heads,
                                        .causal = problem.causal};
  const kernels::Device& device = *session->device();
  if (!device.ops->supports_attention(device.context, problem.backend, traits, &reasons)) {
    return absl::FailedPreconditionError(absl::StrJoin(reasons, "; "));
  }
  const double tensor = static_cast<double>(problem.batch) * problem.num_heads * problem.tokens * problem.head_dim;
  if (auto status = CheckMemory("--shape", 4 * tensor * (4.0 + static_cast<double>(SizeOf(problem.dtype))));
      !status.ok()) {
    return status;
  }
  return DenseRun(session, problem).Run();
}

}  // namespace dunlin::tools::bench

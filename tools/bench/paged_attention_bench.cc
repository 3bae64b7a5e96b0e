// SPDX-License-Identifier: Apache-2.0
// Attention over KV pages, as a model's layers run it. The pool has enough layers, with the same keys and values, to
// exceed the caches; calls cycle through them, so that pages come from memory as in a model.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "tools/bench/attention_bench.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

constexpr int32_t kChunkTokens = 256;  // stored per call
constexpr int32_t kLayersMax = 256;
constexpr uint64_t kQueryTensor = 0;
constexpr uint64_t kKvTensor = 1;   // and up: one for each chunk of each sequence
constexpr float kQueryGain = 8.0F;  // so that scores spread over a few units

kernels::KvLayout PagedLayout(const PagedProblem& p, int32_t layers) {
  return kernels::MakeKvLayout(p.dtype, {.num_layers = layers,
                                         .num_kv_heads = p.num_kv_heads,
                                         .head_dim = p.head_dim,
                                         .v_head_dim = p.v_head_dim,
                                         .values_in_keys = p.v_head_dim != 0});
}

kernels::AttentionTraits PagedTraits(const PagedProblem& p) {
  return {.dtype = p.dtype,
          .head_dim = p.head_dim,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .v_head_dim = p.v_head_dim,
          .values_in_keys = p.v_head_dim != 0};
}

// Press et al. 2022, of a number of heads that is a power of two; of others a sequence as steep.
float AlibiSlope(int32_t head, int32_t num_heads) {
  return std::exp2(-8.0F * static_cast<float>(head + 1) / static_cast<float>(num_heads));
}

class PagedRun {
 public:
  PagedRun(Session* session, const PagedProblem& problem)
      : session_(*session),
        device_(session->device()),
        p_(problem),
        pages_per_sequence_((problem.context + kernels::TokensPerPage(problem.dtype) - 1) /
                            kernels::TokensPerPage(problem.dtype)) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status AllocateMemory();
  void PlacePages();
  void ChooseKeys();
  absl::Status StorePages();
  absl::Status Attend(int64_t call);
  std::vector<float> KeysOf(int64_t row, const std::vector<float>& tokens, int64_t stride) const;
  Proof Check(const std::vector<float>& out) const;
  Work WorkOf() const;
  int32_t kv_width() const { return p_.num_kv_heads * p_.head_dim; }
  int32_t query_width() const { return p_.num_heads * p_.head_dim; }
  int32_t v_dim() const { return layout_.shape.v_head_dim; }
  int64_t num_rows() const { return int64_t{p_.sequences} * p_.queries; }
  int64_t words() const { return (int64_t{p_.context} + 31) / 32; }  // of a row's choice
  // Of kv_width() floats: queries, keys, and values where they are not in the keys.
  int32_t parts_of_row() const { return p_.v_head_dim == 0 ? 3 : 2; }
  // Queries (unused), keys, values of a chunk of a sequence: [count, parts_of_row() * kv_width].
  std::vector<float> Chunk(int32_t sequence, int32_t first, int32_t count) const;

  Session& session_;
  kernels::Device* const device_;
  const PagedProblem p_;
  const int32_t pages_per_sequence_;
  kernels::KvLayout layout_{};
  std::vector<float> query_;
  std::vector<int32_t> page_table_;
  std::vector<kernels::SequenceSpan> spans_;
  std::vector<uint32_t> chosen_;  // [rows, words], where rows choose
  std::vector<float> slopes_;     // of ALiBi: [num_heads]; empty: none
  DeviceMemory pool_;
  DeviceMemory query_memory_;
  DeviceMemory table_memory_;
  DeviceMemory span_memory_;
  DeviceMemory chosen_memory_;
  DeviceMemory slope_memory_;  // of ALiBi
  DeviceMemory out_;
  DeviceMemory workspace_;
  size_t workspace_bytes_ = 0;
};

std::vector<float> PagedRun::Chunk(int32_t sequence, int32_t first, int32_t count) const {
  const auto width = static_cast<size_t>(kv_width());
  std::vector<float> rows(static_cast<size_t>(count) * static_cast<size_t>(parts_of_row()) * width);
  const uint64_t tensor =
      kKvTensor + static_cast<uint64_t>(sequence) * static_cast<uint64_t>(p_.context) + static_cast<uint64_t>(first);
  FillRows(StreamOf(session_.options().seed, tensor), static_cast<size_t>(p_.head_dim), rows);
  return rows;
}

absl::Status PagedRun::AllocateMemory() {
  const double one_layer =
      static_cast<double>(PagedLayout(p_, 1).page_bytes) * static_cast<double>(p_.sequences) * pages_per_sequence_;
  const int32_t layers = std::clamp(
      static_cast<int32_t>(static_cast<double>(session_.bytes_beyond_caches()) / one_layer) + 1, 1, kLayersMax);
  layout_ = PagedLayout(p_, layers);
  const kernels::PagedAttentionPlan plan{.traits = PagedTraits(p_),
                                         .max_query_tokens = p_.queries,
                                         .max_kv_tokens = p_.context,
                                         .selected_keys = p_.selected};
  workspace_bytes_ = device_->ops->paged_attention_workspace(device_->context, p_.backend, plan);
  const auto all_rows = static_cast<size_t>(num_rows());
  const size_t row_bytes = all_rows * static_cast<size_t>(query_width()) * sizeof(float);
  const size_t out_bytes = all_rows * static_cast<size_t>(p_.num_heads) * static_cast<size_t>(v_dim()) * sizeof(float);
  const size_t pages = static_cast<size_t>(p_.sequences) * static_cast<size_t>(pages_per_sequence_);
  for (int32_t head = 0; p_.alibi && head < p_.num_heads; ++head) slopes_.push_back(AlibiSlope(head, p_.num_heads));
  chosen_.resize(p_.selected == 0 ? 0 : static_cast<size_t>(num_rows() * words()));
  struct Part {
    DeviceMemory* memory;
    size_t bytes;
    const char* what;
  };
  const Part parts[] = {{&pool_, pages * layout_.page_bytes, "the KV pages"},
                        {&query_memory_, row_bytes, "the queries"},
                        {&out_, out_bytes, "the output"},
                        {&chosen_memory_, chosen_.size() * sizeof(uint32_t), "the choice of keys"},
                        {&slope_memory_, slopes_.size() * sizeof(float), "the slopes"},
                        {&table_memory_, pages * sizeof(int32_t), "the page table"},
                        {&span_memory_, static_cast<size_t>(p_.sequences) * sizeof(kernels::SequenceSpan), "spans"},
                        {&workspace_, workspace_bytes_, "the workspace"}};
  double total = 0.0;
  for (const Part& part : parts) total += static_cast<double>(part.bytes);
  if (absl::Status status = CheckMemory("--shape", total); !status.ok()) return status;
  for (const Part& part : parts) {
    auto memory = DeviceMemory::Allocate(device_, part.bytes, part.what);
    if (!memory.ok()) return memory.status();
    *part.memory = *std::move(memory);
  }
  return absl::OkStatus();
}

// Shuffles the pages over the pool, as they are after some time of serving.
void PagedRun::PlacePages() {
  page_table_.resize(static_cast<size_t>(p_.sequences) * static_cast<size_t>(pages_per_sequence_));
  std::iota(page_table_.begin(), page_table_.end(), 0);
  std::shuffle(page_table_.begin(), page_table_.end(), std::mt19937_64(session_.options().seed));
  for (int32_t i = 0; i < p_.sequences; ++i) {
    spans_.push_back({.query_start = i * p_.queries,
                      .query_len = p_.queries,
                      .first_position = p_.context - p_.queries,
                      .page_table_row = i});
  }
}

// Of each row's keys p_.selected at random.
void PagedRun::ChooseKeys() {
  std::mt19937_64 random(session_.options().seed);
  std::vector<int32_t> keys;
  for (int64_t row = 0; p_.selected != 0 && row < num_rows(); ++row) {
    keys.resize(static_cast<size_t>(p_.context - p_.queries + static_cast<int32_t>(row % p_.queries) + 1));
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), random);
    keys.resize(std::min(keys.size(), static_cast<size_t>(p_.selected)));
    for (const int32_t key : keys) chosen_[static_cast<size_t>(row * words() + key / 32)] |= 1U << (key % 32);
  }
}

absl::Status PagedRun::StorePages() {
  const size_t row_floats = static_cast<size_t>(parts_of_row()) * static_cast<size_t>(kv_width());
  auto staged = DeviceMemory::Allocate(device_, kChunkTokens * row_floats * sizeof(float), "a chunk");
  if (!staged.ok()) return staged.status();
  auto places = DeviceMemory::Allocate(device_, size_t{2} * kChunkTokens * sizeof(int32_t), "the places of a chunk");
  if (!places.ok()) return places.status();
  std::vector<int32_t> host_places(size_t{2} * kChunkTokens);  // pages, then slots
  kernels::RotateAndStoreKvParams params{};
  params.qkv = staged->floats();
  params.num_heads = p_.num_kv_heads;
  params.kv_pool = pool_.data();
  params.layout = layout_;
  params.token_page = static_cast<const int32_t*>(places->data());
  params.token_slot = params.token_page + kChunkTokens;
  for (int32_t sequence = 0; sequence < p_.sequences; ++sequence) {
    for (int32_t first = 0; first < p_.context; first += kChunkTokens) {
      params.num_tokens = std::min(kChunkTokens, p_.context - first);
      const std::vector<float> rows = Chunk(sequence, first, params.num_tokens);
      for (int32_t i = 0; i < params.num_tokens; ++i) {
        const int32_t index = sequence * pages_per_sequence_ + (first + i) / layout_.tokens_per_page;
        host_places[static_cast<size_t>(i)] = page_table_[static_cast<size_t>(index)];
        host_places[static_cast<size_t>(kChunkTokens + i)] = (first + i) % layout_.tokens_per_page;
      }
      absl::Status status = places->Write(host_places.data(), places->bytes());
      for (params.layer = 0; params.layer < layout_.shape.num_layers; ++params.layer) {
        if (status.ok()) status = staged->Write(rows.data(), rows.size() * sizeof(float));
        if (status.ok()) status = StatusOf(device_->ops->rotate_and_store_kv(device_->context, params), "store kv");
      }
      if (!status.ok()) return status;
    }
  }
  // The staged input must live until it has been read.
  return StatusOf(device_->ops->synchronize(device_->context), "store kv");
}

absl::Status PagedRun::Prepare() {
  absl::Status status = AllocateMemory();
  if (!status.ok()) return status;
  PlacePages();
  ChooseKeys();
  status = StorePages();
  if (!status.ok()) return status;
  query_.resize(query_memory_.bytes() / sizeof(float));
  FillRows(StreamOf(session_.options().seed, kQueryTensor), static_cast<size_t>(p_.head_dim), query_);
  for (float& value : query_) value *= kQueryGain;
  status = query_memory_.Write(query_.data(), query_memory_.bytes());
  if (status.ok()) status = table_memory_.Write(page_table_.data(), page_table_.size() * sizeof(int32_t));
  if (status.ok()) status = span_memory_.Write(spans_.data(), spans_.size() * sizeof(kernels::SequenceSpan));
  if (status.ok() && !chosen_.empty()) {
    status = chosen_memory_.Write(chosen_.data(), chosen_.size() * sizeof(uint32_t));
  }
  if (status.ok() && !slopes_.empty()) {
    status = slope_memory_.Write(slopes_.data(), slopes_.size() * sizeof(float));
  }
  return status;
}

absl::Status PagedRun::Attend(int64_t call) {
  kernels::KeySelection selection;
  if (p_.selected != 0) {
    selection = {.bits = static_cast<const uint32_t*>(chosen_memory_.data()), .stride = words(), .most = p_.selected};
  }
  return StatusOf(device_->ops->paged_attention(
                      device_->context, {.backend = p_.backend,
                                         .query = query_memory_.floats(),
                                         .query_stride = query_width(),
                                         .out = out_.floats(),
                                         .kv_pool = pool_.data(),
                                         .num_pages = p_.sequences * pages_per_sequence_,
                                         .layout = layout_,
                                         .layer = static_cast<int32_t>(call % layout_.shape.num_layers),
                                         .num_heads = p_.num_heads,
                                         .page_table = static_cast<const int32_t*>(table_memory_.data()),
                                         .page_table_stride = pages_per_sequence_,
                                         .sequences = static_cast<const kernels::SequenceSpan*>(span_memory_.data()),
                                         .num_sequences = p_.sequences,
                                         .num_rows = static_cast<int32_t>(num_rows()),
                                         .max_query_tokens = p_.queries,
                                         .max_kv_tokens = p_.context,
                                         .scale = 1.0F / std::sqrt(static_cast<float>(p_.head_dim)),
                                         .softcap = p_.softcap,
                                         .alibi_slopes = slopes_.empty() ? nullptr : slope_memory_.floats(),
                                         .selection = selection,
                                         .workspace = workspace_.data(),
                                         .workspace_bytes = workspace_bytes_}),
                  "paged attention");
}

// Bytes: K and V of one layer once, which a call reads whatever its queries; of chosen keys, each row's.
Work PagedRun::WorkOf() const {
  const double seen = p_.selected == 0 ? SeenPairs(p_.queries, p_.context, true) : 1.0 * p_.selected * p_.queries;
  const double token_bytes = static_cast<double>(layout_.layer_bytes) / layout_.tokens_per_page;
  const double keys = p_.selected == 0 ? p_.context : seen;
  return {.flops = 2.0 * seen * p_.sequences * p_.num_heads * (p_.head_dim + v_dim()),
          .bytes = token_bytes * keys * p_.sequences,
          .peak = PeakOf(p_.dtype)};
}

// Keys, or keys and values, of the tokens that a row attends to: rows of `stride` floats.
std::vector<float> PagedRun::KeysOf(int64_t row, const std::vector<float>& tokens, int64_t stride) const {
  const int32_t seen = p_.context - p_.queries + static_cast<int32_t>(row % p_.queries) + 1;
  if (p_.selected == 0) return {tokens.begin(), tokens.begin() + seen * stride};
  std::vector<float> keys;
  for (int32_t key = 0; key < seen; ++key) {
    if ((chosen_[static_cast<size_t>(row * words() + key / 32)] >> (key % 32) & 1U) == 0) continue;
    keys.insert(keys.end(), tokens.begin() + key * stride, tokens.begin() + (key + 1) * stride);
  }
  return keys;
}

// A few rows and heads of the first and the last sequence.
Proof PagedRun::Check(const std::vector<float>& out) const {
  std::vector<Sample> samples;
  const auto dim = static_cast<size_t>(p_.head_dim);
  const auto value_dim = static_cast<size_t>(v_dim());
  const int64_t stride = int64_t{parts_of_row()} * kv_width();
  for (const int64_t sequence : SampleIndices(p_.sequences, 2)) {
    std::vector<float> tokens;
    for (int32_t first = 0; first < p_.context; first += kChunkTokens) {
      const auto chunk = Chunk(static_cast<int32_t>(sequence), first, std::min(kChunkTokens, p_.context - first));
      tokens.insert(tokens.end(), chunk.begin(), chunk.end());
    }
    for (const int64_t token : SampleIndices(p_.queries, 4)) {
      const int64_t row = sequence * p_.queries + token;
      const std::vector<float> seen = KeysOf(row, tokens, stride);
      for (const int64_t head : SampleIndices(p_.num_heads, 4)) {
        const auto kv_head = static_cast<size_t>(head / (p_.num_heads / p_.num_kv_heads));
        const auto at = static_cast<size_t>(row * p_.num_heads + head);
        const float* keys = seen.data() + static_cast<size_t>(kv_width()) + kv_head * dim;
        AppendSamples({.query = query_.data() + at * dim,
                       .keys = keys,
                       .values = p_.v_head_dim == 0 ? keys + kv_width() : keys + (dim - value_dim),
                       .stride = stride,
                       .num_keys = static_cast<int32_t>(static_cast<int64_t>(seen.size()) / stride),
                       .head_dim = p_.head_dim,
                       .scale = 1.0 / std::sqrt(static_cast<double>(p_.head_dim)),
                       .v_head_dim = v_dim(),
                       .softcap = p_.softcap,
                       .slope = slopes_.empty() ? 0.0 : slopes_[static_cast<size_t>(head)]},
                      std::span(out).subspan(at * value_dim, value_dim), &samples);
      }
    }
  }
  Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples, RelativeBound(p_.dtype));
  RequireWritten(out, &proof);
  return proof;
}

absl::Status PagedRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = out_.Poison();
  if (!status.ok()) return status;
  const absl::StatusOr<Timing> timing =
      Measure(session_.TimingFor(WorkOf()), [this](int64_t call) { return Attend(call); });
  if (!timing.ok()) return timing.status();
  std::vector<float> out(out_.bytes() / sizeof(float));
  status = out_.Read(out.data(), out.size() * sizeof(float));
  if (!status.ok()) return status;
  Record record;
  record.op = "paged_attention";
  record.case_name = p_.case_name;
  record.backend = Name(p_.backend);
  record.precision = Name(p_.dtype);
  record.shape = {p_.sequences, p_.num_heads, p_.context, p_.head_dim};
  record.work = WorkOf();
  record.timing = *timing;
  record.workspace_bytes = workspace_bytes_;
  record.resident_bytes = pool_.bytes() + query_memory_.bytes() + out_.bytes();
  record.proof = Check(out);
  record.extra["queries"] = p_.queries;
  record.extra["kv_heads"] = p_.num_kv_heads;
  record.extra["group"] = p_.num_heads / p_.num_kv_heads;
  record.extra["layers_in_turn"] = layout_.shape.num_layers;
  if (p_.selected != 0) record.extra["selected"] = p_.selected;
  if (p_.softcap > 0.0F) record.extra["softcap"] = p_.softcap;
  if (p_.alibi) record.extra["alibi"] = true;
  session_.Add(std::move(record));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPaged(Session* session, const PagedProblem& problem) {
  std::vector<std::string> reasons;
  const kernels::Device& device = *session->device();
  if (!device.ops->supports_attention(device.context, problem.backend, PagedTraits(problem), &reasons)) {
    return absl::FailedPreconditionError(absl::StrJoin(reasons, "; "));
  }
  return PagedRun(session, problem).Run();
}

}  // namespace dunlin::tools::bench

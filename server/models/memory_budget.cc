// SPDX-License-Identifier: Apache-2.0
#include "server/models/memory_budget.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/file.h"
#include "engine/base/string_view.h"
#include "engine/cache/page.h"
#include "engine/encoder/encoder_memory.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/load/inspect.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/sample_stage.h"
#include "engine/runtime/step_inputs.h"
#include "server/models/adapter_memory.h"
#include "server/models/draft_loader.h"
#include "server/models/image_input.h"
#include "server/models/kv_share.h"
#include "text/tokenizer.h"

namespace dunlin::server {
namespace {

// kernels/cpu maps blocks from 4 MiB on in huge pages.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = 2 * kHugePage;
// Of a page, on the host: its nodes in the pool and in the prefix cache, and its tokens, 32 at most. Beside them its
// block has a link to the page of every other group.
constexpr size_t kIndexBytesPerPage = 256;
// With models[].kv_cache.event_batches: a node of PageSetTree, what was published of the page, two events of it, and
// the tokens of these three. And a batch with two events more.
constexpr size_t kEventBytesPerPage = 640;
constexpr size_t kBytesPerEventBatch = 384;
// Tokenizers of 32k to 256k tokens took 17 to 21 times the size of their tokenizer.json.
constexpr size_t kTextBytesPerByte = 20;
// Of the tokenizer.json that a SentencePiece model amounts to: Llama 2's has 1.84 MB for 0.50 MB.
constexpr size_t kJsonBytesPerPieceByte = 4;
// The same of a tiktoken vocabulary: a token of 6 bytes has a line of 16 bytes, and 30 (ASCII) to 42 in vocab and
// merges.
constexpr size_t kJsonBytesPerRankByte = 3;
// Of an open stream with its share of a connection: 64 to 500 of them took 30 to 70 KB each, and limits that are never
// reached are the rule.
constexpr size_t kStreamBytes = size_t{20} << 10;
// What the process grows by once its devices are open, models and streams aside: gRPC, threads, the allocator.
constexpr size_t kProcessGrowth = size_t{4} << 20;

// What a block of the CPU device occupies.
size_t Resident(size_t bytes) {
  return bytes < kMapFrom ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// One model while it is planned.
struct Draft {
  const ModelSettings* settings = nullptr;
  const kernels::Device* device = nullptr;
  engine::ModelConfig config;
  engine::KvDemand demand;  // of a decoder
  size_t index_bytes_per_page = kIndexBytesPerPage;
  KvShare share;            // with automatic KV memory
  KvShare expert_adapters;  // with adapters of automatic memory
  ModelMemory memory;       // kv 0 until that is settled, adapters without those of experts
};

size_t WeightBytes(const engine::ModelSummary& summary, const std::vector<engine::Precision>& resident) {
  size_t sum = Resident(summary.vector_bytes);
  for (const engine::Precision precision : resident) {
    sum += Resident(summary.weight_bytes[static_cast<size_t>(precision)] - summary.vector_bytes);
  }
  return sum;
}

size_t WorkspaceBytes(const engine::MemoryPlan& plan) {
  size_t sum = Resident(engine::StepInputs::ArenaBytes(plan) + engine::SampleStage::Bytes(plan));
  for (size_t i = 0; i < plan.bytes.size(); ++i) {
    const auto id = static_cast<engine::BufferId>(i);
    if (id != engine::BufferId::kKvPool && id != engine::BufferId::kState) sum += Resident(plan.bytes[i]);
  }
  return sum;
}

// By the text that the tokenizer is made from: of a GGUF file, its metadata.
absl::StatusOr<size_t> TextBytes(const std::string& path) {
  if (!path.empty() && engine::IsGgufPath(path)) {
    const absl::StatusOr<size_t> text = engine::EstimateGgufText(path);
    if (!text.ok()) return text.status();
    return kTextBytesPerByte * *text;
  }
  const std::filesystem::path folder(path);
  std::error_code error;
  const std::pair<const char*, size_t> kJsonBytes[] = {{"tokenizer.json", 1},
                                                       {text::kSentencePieceFile, kJsonBytesPerPieceByte},
                                                       {text::kTiktokenFile, kJsonBytesPerRankByte}};
  for (const auto& [name, json_bytes] : kJsonBytes) {
    const std::uintmax_t size = std::filesystem::file_size(folder / name, error);
    if (!error) return kTextBytesPerByte * json_bytes * static_cast<size_t>(size);
  }
  return 0;
}

// Sets what the model that guesses takes: as many contexts of usual length as it guesses for requests at once. Its
// tokenizer is gone once it has been compared.
absl::Status PlanDraftModel(const ModelSettings& settings, const kernels::Device& device, ModelMemory* memory) {
  if (!settings.draft.given()) return absl::OkStatus();
  const engine::ModelSource& source = settings.draft.source;
  absl::StatusOr<engine::ModelSummary> summary = engine::InspectModel(source, *device.ops);
  if (!summary.ok()) return summary.status();
  if (summary->config.is_encoder()) {
    return absl::FailedPreconditionError(
        absl::StrCat(summary->config.architecture, " is an encoder: it cannot generate"));
  }
  engine::EngineOptions options = DraftOptions(settings);
  options.kv_memory_bytes = engine::KvDemandOf(summary->config, source.precisions, options).most;
  const auto plan = engine::PlanMemory(summary->config, source.precisions, device, options);
  if (!plan.ok()) return plan.status();
  memory->draft_kv = options.kv_memory_bytes;
  memory->draft = WeightBytes(*summary, source.precisions) + Resident(options.kv_memory_bytes) + WorkspaceBytes(*plan);
  return absl::OkStatus();
}

// Sets what the image encoder takes, where the model has one that is served.
absl::Status PlanImages(const ModelSettings& settings, const engine::ModelConfig& decoder,
                        const kernels::Device& device, ModelMemory* memory) {
  if (!decoder.text_part || settings.source.path.empty()) return absl::OkStatus();
  const auto files = engine::OpenModelFiles(settings.source.path);
  if (!files.ok()) return files.status();
  const absl::StatusOr<text::ImageProcessor> processor = FindImageProcessor(settings, **files, decoder);
  if (!processor.ok()) return absl::OkStatus();  // the loader says why
  const engine::ModelSource source = ImageEncoderSource(settings);
  const absl::StatusOr<engine::ModelSummary> summary = engine::InspectModel(source, *device.ops);
  if (!summary.ok()) return absl::OkStatus();  // as above
  const auto plan = engine::PlanEncoderMemory(summary->config, source.precisions, device,
                                              ImageEncoderOptions(settings, *processor), 1);
  if (!plan.ok()) return plan.status();
  memory->images = WeightBytes(*summary, source.precisions) + WorkspaceBytes(*plan);
  memory->image_rows = settings.images.memory_bytes + DecodingBytes(settings, *processor, decoder.hidden_dim);
  return absl::OkStatus();
}

absl::StatusOr<engine::MemoryPlan> PlanAllRanks(const engine::ModelConfig& config, int32_t num_ranks,
                                                const std::vector<engine::Precision>& resident,
                                                const kernels::Device& device, const engine::EngineOptions& options) {
  const auto plans = engine::PlanRanks(config, num_ranks, resident, device, options);
  if (!plans.ok()) return plans.status();
  return engine::SumOf(*plans);
}

void SetPages(int64_t pages, size_t page_bytes, Draft* draft) {
  const size_t pool_bytes = static_cast<size_t>(pages) * page_bytes;
  draft->memory.pages = pages;
  draft->memory.page_bytes = page_bytes;
  draft->memory.kv = Resident(pool_bytes);
  draft->memory.workspace += static_cast<size_t>(pages) * draft->index_bytes_per_page;
  if (draft->demand.one_context > 0) {
    draft->memory.contexts = static_cast<int64_t>(pool_bytes / draft->demand.one_context);
  }
}

absl::Status PlanDraft(Draft* draft) {
  const ModelSettings& settings = *draft->settings;
  const kernels::Device& device = *draft->device;
  absl::StatusOr<engine::ModelSummary> summary = engine::InspectModel(settings.source, *device.ops);
  if (!summary.ok()) return summary.status();
  const std::vector<engine::Precision>& resident = settings.source.precisions;
  draft->config = std::move(summary->config);
  ModelMemory& memory = draft->memory;
  memory.name = settings.name;
  memory.device = &device;
  memory.on_host = device.ops->kind == kernels::DeviceKind::kCpu;
  memory.weights = WeightBytes(*summary, resident);
  if (absl::Status status = PlanDraftModel(settings, device, &memory); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("models[].speculation.draft: ", status.message()));
  }
  if (absl::Status status = PlanImages(settings, draft->config, device, &memory); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("image encoder: ", status.message()));
  }
  const absl::StatusOr<size_t> text = TextBytes(settings.source.path);
  if (!text.ok()) return text.status();
  memory.text = *text;
  const AdapterMemory adapters = AdapterMemoryOf(*summary, settings.engine.adapters);
  memory.adapters = adapters.bytes;
  draft->expert_adapters = adapters.experts;
  memory.evicted_adapters = settings.engine.adapters.max_host_bytes;
  engine::EngineOptions options = settings.engine;
  const bool encoder = draft->config.is_encoder();
  const int32_t num_ranks = settings.source.num_ranks;
  memory.num_ranks = num_ranks;
  if (!encoder) draft->demand = engine::KvDemandOf(draft->config, resident, options, num_ranks);
  memory.encoder = encoder;
  memory.kv_auto = !encoder && options.kv_memory_bytes == kAutoBytes;
  if (memory.kv_auto) options.kv_memory_bytes = draft->demand.one_context;
  const absl::StatusOr<engine::MemoryPlan> plan =
      encoder ? engine::PlanEncoderMemory(draft->config, resident, device, options, num_ranks)
              : PlanAllRanks(draft->config, num_ranks, resident, device, options);
  if (!plan.ok()) return plan.status();
  memory.workspace = WorkspaceBytes(*plan);
  draft->index_bytes_per_page += static_cast<size_t>(plan->kv_groups.count() - 1) * sizeof(engine::PageId);
  if (const int32_t batches = options.kv_events.max_batches; batches > 0 && !encoder) {
    draft->index_bytes_per_page += kEventBytesPerPage;
    memory.workspace += static_cast<size_t>(batches) * kBytesPerEventBatch;
  }
  memory.context_tokens = plan->max_context_tokens;
  if (options.max_context_tokens > memory.context_tokens) memory.config_tokens = options.max_context_tokens;
  if (!memory.kv_auto) {
    const size_t page_bytes = (*plan)[engine::BufferId::kKvPool] / static_cast<size_t>(plan->num_pages);
    const size_t state_pages = ((*plan)[engine::BufferId::kState] + page_bytes - 1) / page_bytes;
    SetPages(plan->num_pages + static_cast<int64_t>(state_pages), page_bytes, draft);
    memory.lacks_context = !encoder && memory.contexts == 0;
    return absl::OkStatus();
  }
  draft->share.least = static_cast<int64_t>(draft->demand.one_context / draft->demand.page_bytes);
  draft->share.most = static_cast<int64_t>(draft->demand.most / draft->demand.page_bytes);
  draft->share.bytes_per_page = draft->demand.page_bytes + draft->index_bytes_per_page;
  return absl::OkStatus();
}

// What a device with memory of its own has in all, by its facts; without such a line as much as anybody asks for, since
// an allocation that fails refuses the start anyway.
size_t OwnMemory(const kernels::Device& device) {
  constexpr std::string_view kMemory = "memory: ";
  const std::vector<std::string> lines = absl::StrSplit(device.facts, '\n');
  for (const std::string& line : lines) {
    uint64_t mib = 0;
    if (!line.starts_with(kMemory) || !line.ends_with(" MiB")) continue;
    if (absl::SimpleAtoi(line.substr(kMemory.size(), line.size() - kMemory.size() - 4), &mib)) return mib << 20;
  }
  return std::numeric_limits<size_t>::max() / 2;
}

// Gives the automatic models of one device their pages, and adapters of experts theirs, out of `bytes`, of which
// `planned` are taken. Not OK when a context does not fit: what to change.
absl::Status Settle(size_t bytes, size_t planned, const std::vector<Draft*>& drafts) {
  std::vector<Draft*> open;
  std::vector<KvShare> shares;
  for (Draft* draft : drafts) {
    if (!draft->memory.kv_auto) continue;
    open.push_back(draft);
    shares.push_back(draft->share);
  }
  for (const Draft* draft : drafts) shares.push_back(draft->expert_adapters);
  const bool fits = DivideKv(bytes - std::min(bytes, planned), &shares);
  size_t least = planned;
  for (size_t i = 0; i < open.size(); ++i) {
    SetPages(shares[i].pages, open[i]->demand.page_bytes, open[i]);
    least += static_cast<size_t>(shares[i].least) * shares[i].bytes_per_page;
  }
  for (size_t i = 0; i < drafts.size(); ++i) {
    const KvShare& share = shares[open.size() + i];
    drafts[i]->memory.adapters += static_cast<size_t>(share.pages) * share.bytes_per_page;
  }
  if (fits) return absl::OkStatus();
  const auto largest = std::max_element(open.begin(), open.end(), [](const Draft* a, const Draft* b) {
    return a->demand.one_context < b->demand.one_context;
  });
  const Draft& draft = **largest;
  const size_t others = least - std::min(least, draft.demand.one_context);
  const int32_t context =
      engine::ContextThatFits(draft.config, draft.settings->source.precisions, draft.settings->engine,
                              bytes - std::min(bytes, others), draft.settings->source.num_ranks);
  return absl::ResourceExhaustedError(context > 0
                                          ? absl::StrCat("Of model \"", draft.memory.name, "\" a context of ", context,
                                                         " tokens would fit (models[].max_context_tokens)")
                                          : "The weights leave no room (models[].precisions)");
}

// A plan that exceeds another limit than a ulimit is one that the config's sizes ask for: WarningsOf.
absl::Status CheckUlimit(const MemoryBudget& budget) {
  if (budget.ulimit.empty() || !ExceedsLimit(budget)) return absl::OkStatus();
  return MemoryRefused(budget, "Allocations would fail");
}

}  // namespace

absl::StatusOr<MemoryBudget> EmptyBudget(const Config& config, const HostFacts& host) {
  MemoryBudget budget;
  budget.edge = static_cast<size_t>(config.limits.max_concurrent_requests) * kStreamBytes;
  budget.process = host.resident + kProcessGrowth;
  PlanLimit limit = PlanLimitOf(config, host);
  budget.limit = limit.bytes;
  budget.limit_source = std::move(limit.source);
  budget.ulimit = std::move(limit.ulimit);
  budget.share_percent = limit.share_percent;
  absl::StatusOr<RequestMemory> requests = PlanRequestMemory(config, budget.limit);
  if (!requests.ok()) return requests.status();
  budget.requests = *std::move(requests);
  if (absl::Status status = CheckUlimit(budget); !status.ok()) return status;
  return budget;
}

absl::StatusOr<MemoryBudget> PlanServerMemory(const Config& config, const std::vector<kernels::Device*>& devices,
                                              const HostFacts& host) {
  absl::StatusOr<MemoryBudget> empty = EmptyBudget(config, host);
  if (!empty.ok()) return empty.status();
  return AddToBudget(*std::move(empty), config, devices);
}

absl::StatusOr<MemoryBudget> AddToBudget(MemoryBudget budget, const Config& config,
                                         const std::vector<kernels::Device*>& devices) {
  std::vector<Draft> drafts(config.models.size());
  std::map<const kernels::Device*, std::vector<Draft*>> places;
  size_t planned = budget.total();
  for (size_t i = 0; i < drafts.size(); ++i) {
    drafts[i].settings = &config.models[i];
    drafts[i].device = devices[i];
    if (absl::Status status = PlanDraft(&drafts[i]); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat("model \"", config.models[i].name, "\": ", status.message()));
    }
    planned += drafts[i].memory.on_host_bytes();
    places[devices[i]].push_back(&drafts[i]);
  }
  absl::Status advice;
  for (const auto& [device, models] : places) {
    if (models.front()->memory.on_host) {
      advice.Update(Settle(budget.limit, planned, models));
      continue;
    }
    size_t on_device = 0;
    int32_t num_devices = models.front()->memory.num_ranks;  // that all of these models have
    for (const Draft* draft : models) {
      on_device += draft->memory.on_device();
      num_devices = std::min(num_devices, draft->memory.num_ranks);
    }
    for (const ModelMemory& resident : budget.models) {
      if (resident.device == device) on_device += resident.on_device();
    }
    const size_t of_one = OwnMemory(*device) / 100 * static_cast<size_t>(config.memory.share_percent);
    const size_t of_all = of_one * static_cast<size_t>(num_devices);
    const size_t usable = of_all / static_cast<size_t>(num_devices) == of_one ? of_all : of_one;
    advice.Update(Settle(usable, on_device, models));
  }
  for (Draft& draft : drafts) budget.models.push_back(std::move(draft.memory));
  if (!advice.ok()) return MemoryRefused(budget, engine::StdView(advice.message()));
  if (absl::Status status = CheckUlimit(budget); !status.ok()) return status;
  return budget;
}

}  // namespace dunlin::server

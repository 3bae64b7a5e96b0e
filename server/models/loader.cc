// SPDX-License-Identifier: Apache-2.0
#include "server/models/loader.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/bounded_read.h"
#include "engine/base/string_view.h"
#include "engine/draft_model/predicting_layer.h"
#include "engine/encoder/encoder_runtime.h"
#include "engine/model/load/load_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/load/sampling_defaults.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/model_runtime.h"
#include "server/models/draft_loader.h"
#include "server/models/image_input.h"
#include "server/models/memory_limit.h"
#include "server/models/text_loader.h"
#include "server/process/monotonic_clock.h"
#include "server/text_worker/worker_pool.h"

namespace dunlin::server {
namespace {

absl::Status Named(const std::string& model_name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("model \"", model_name, "\": ", status.message()));
}

// What ChatTemplate::Load takes; one byte more of a file is read, so that it refuses a larger one.
constexpr size_t kMaxTemplateFileBytes = size_t{1} << 20;

// Of a model's chat template. A chat takes some 50 us, and the steps of a rendering would end after seconds.
constexpr absl::Duration kChatTime = absl::Seconds(3);
constexpr absl::Duration kChatProcessorTime = absl::Seconds(1);

constexpr size_t kMaxWarningBytes = 200;

double Seconds(engine::TimeNs from) {
  return static_cast<double>(MonotonicNs() - from) * 1e-9;
}

void LogLoaded(const ModelSettings& settings, const engine::Model& model, engine::TimeNs start) {
  spdlog::info("model \"{}\": {} with {} parameters on {}, {:.2f} s", settings.name, model.config().architecture,
               model.num_parameters(), model.device()->description, Seconds(start));
  for (int32_t rank = 0; model.num_ranks() > 1 && rank < model.num_ranks(); ++rank) {
    const engine::Model& of_rank = model.of_rank(rank);
    const engine::AttentionSpec& attention = of_rank.rank_config().attention;
    spdlog::info("model \"{}\": rank {} of {} on {}: {} heads, {} of keys and values, {} columns of the MLP",
                 settings.name, rank, model.num_ranks(), of_rank.device()->description, attention.num_heads,
                 attention.num_kv_heads, of_rank.rank_config().max_ffn_dim());
  }
  for (const engine::Precision precision : model.precisions()) {
    const bool in_groups = Traits(Traits(precision).format).group != 0;
    spdlog::info("model \"{}\": {} weights {} bytes{}{}", settings.name, Name(precision), model.weight_bytes(precision),
                 precision == model.own_precision() ? ", the checkpoint's own codes" : "",
                 in_groups && model.int8_inputs() ? ", inputs of 8 bits" : "");
  }
  if (const engine::ModelConfig& config = model.config(); config.is_recurrent()) {
    spdlog::info(
        "model \"{}\": {} of {} layers are recurrent, with a state of {} bytes for each running request and each that "
        "the prefix cache keeps",
        settings.name, config.num_recurrent_layers(), config.num_layers,
        engine::StateBytesOf(config, model.num_ranks()));
  }
  for (const std::string& warning : model.warnings()) spdlog::warn("model \"{}\": {}", settings.name, warning);
}

// The template that the configuration gives: the text itself, or of a file. Empty: none is given.
absl::StatusOr<std::string> GivenChatTemplate(const ModelSettings& settings) {
  if (settings.chat_template.empty() || IsTemplateText(settings.chat_template)) return settings.chat_template;
  absl::StatusOr<std::string> text = engine::ReadRegularFile(settings.chat_template, kMaxTemplateFileBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("models[].chat_template ", settings.chat_template, ": ", text.status().message()));
  }
  if (text->empty()) {
    return absl::InvalidArgumentError(absl::StrCat("models[].chat_template ", settings.chat_template, " is empty"));
  }
  return text;
}

// Null: templates run in this process.
std::unique_ptr<text::TextWorkerCalls> ChatWorkers(const ModelSettings& settings) {
  if (settings.text_worker.empty()) return nullptr;
  return std::make_unique<WorkerPool>(
      settings.text_worker, WorkerLimits{.memory_bytes = settings.text_work.chat_worker_bytes},
      WorkerPool::Bounds{
          .workers = settings.text_work.chat_workers, .time = kChatTime, .processor_time = kChatProcessorTime});
}

// Added tokens beyond the rows of the embedding: prompts that have one will be refused.
void WarnOfUnembedded(const std::string& name, const text::Tokenizer& tokenizer, int64_t num_rows) {
  std::string tokens;
  for (int64_t id = num_rows; id < tokenizer.vocab_size() && tokens.size() < kMaxWarningBytes; ++id) {
    const auto text = tokenizer.TokenText(static_cast<engine::TokenId>(id));
    if (text.ok()) absl::StrAppend(&tokens, tokens.empty() ? "" : ", ", *text, " (", id, ")");
  }
  if (tokens.empty()) return;
  spdlog::warn("model \"{}\": has no embedding for these tokens of its tokenizer, and refuses prompts with them: {}",
               name, tokens);
}

// A model without a usable template serves; it only takes no chats.
absl::Status LoadChatTemplate(const ModelSettings& settings, const engine::TextFiles& files, ServedModel* served) {
  served->chat_special_tokens = settings.chat_special_tokens;
  const absl::StatusOr<std::string> given = GivenChatTemplate(settings);
  if (!given.ok()) return given.status();
  auto loaded = text::ChatTemplate::Load(files, *given, ChatWorkers(settings));
  if (absl::IsUnavailable(loaded.status())) return loaded.status();
  if (loaded.ok()) {
    served->chat_template = *std::move(loaded);
    const absl::StatusOr<text::ChatOutputForms> forms =
        text::ChooseForms(settings.tool_parser, settings.reasoning_parser, served->chat_template->source());
    if (!forms.ok()) return forms.status();
    served->chat_forms = *forms;
    if (served->tokenizer != nullptr)
      served->system_places = SystemPlacesOf(*served->chat_template, *served->tokenizer);
  } else if (!absl::IsNotFound(loaded.status())) {
    served->chat_refusal = absl::StrCat("its chat template is of no use: ", loaded.status().message(),
                                        "; correct it, or set models[].chat_template");
    spdlog::warn("model \"{}\": takes no chats: {}", settings.name, served->chat_refusal);
  }
  return absl::OkStatus();
}

void LogMemory(const ModelSettings& settings, const engine::MemoryPlan& plan) {
  spdlog::info("model \"{}\": {} KV pages, buffers: {}", settings.name, plan.num_pages, engine::Describe(plan));
}

// Warms the model up before it serves: runs every prefill GEMM where that makes later ones faster.
template <typename Runtime>
absl::Status WarmUp(const ServedModel& served, Runtime* runtime) {
  std::string notice;
  absl::Status status = runtime->WarmUp(*served.profiles, &notice);
  if (!notice.empty()) spdlog::warn("model \"{}\": {}", served.name, notice);
  return status;
}

// The pool gets its memory while the model serves already.
void SetBacking(const std::string& name, engine::TimeNs start, engine::KvBackingOptions* backing) {
  if (backing->memory_left == nullptr) backing->memory_left = [] { return MemoryLeft(""); };
  backing->on_end = [name, start](int32_t num_pages, int32_t of) {
    if (num_pages == of) {
      spdlog::info("model \"{}\": its {} KV pages have memory, after {:.2f} s", name, of, Seconds(start));
      return;
    }
    spdlog::warn(
        "model \"{}\": the system has memory for {} of {} KV pages; requests that need more are refused. Give the "
        "server more memory, or lower models[].kv_cache.memory_bytes; a reload tries again",
        name, num_pages, of);
  };
}

// Whether the files of a model, not the machine, are why it has no image encoder: it serves text.
bool IsOfFiles(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

absl::Status StartImageInput(const ModelSettings& settings, const engine::TextFiles& files, kernels::Device* device,
                             ServedModel* served, const std::atomic<bool>& stop) {
  const engine::ModelConfig& config = served->model->config();
  if (!config.text_part) return absl::OkStatus();
  if (settings.images.max_images == 0) {
    served->image_refusal = "models[].images.max_images is 0";
    return absl::OkStatus();
  }
  const absl::StatusOr<text::ImageProcessor> processor = FindImageProcessor(settings, files, config);
  if (absl::IsNotFound(processor.status())) return absl::OkStatus();
  absl::Status status = processor.status();
  if (status.ok() && served->chat_template == nullptr) status = absl::FailedPreconditionError("it takes no chats");
  if (status.ok()) {
    auto images = LoadImageInput(settings, *processor, config, *served->tokenizer, device, stop);
    status = images.status();
    if (images.ok()) served->images = *std::move(images);
  }
  if (status.ok()) return status;
  spdlog::warn("model \"{}\": takes no images: {}", settings.name, engine::StdView(status.message()));
  served->image_refusal = "the log of its start says why it takes no images";
  return IsOfFiles(status) ? absl::OkStatus() : status;
}

absl::Status StartDecoder(const ModelSettings& settings, const engine::TextFiles& files, kernels::Device* device,
                          ServedModel* served, const std::atomic<bool>& stop) {
  engine::EngineOptions options = settings.engine;
  SetBacking(settings.name, MonotonicNs(), &options.kv_backing);
  auto defaults = engine::ReadGenerationDefaults(files, served->model->config().vocab_size);
  if (!defaults.ok()) return defaults.status();
  for (const std::string& warning : defaults->warnings) spdlog::warn("model \"{}\": {}", settings.name, warning);
  served->sampling_defaults = std::move(defaults->sampling);
  served->names_temperature = defaults->names_temperature;
  served->default_max_tokens = defaults->max_tokens;
  auto runtime = engine::ModelRuntime::Create(served->model.get(), options);
  if (!runtime.ok()) return runtime.status();
  LogMemory(settings, (*runtime)->memory_plan());
  if (absl::Status status = WarmUp(*served, runtime->get()); !status.ok()) return status;
  if (absl::Status status = StartImageInput(settings, files, device, served, stop); !status.ok()) return status;
  std::unique_ptr<engine::BatchDrafter> drafter;
  if (settings.draft.given()) {
    auto loaded = LoadDraftModel(settings, device, served, stop);
    if (!loaded.ok()) return loaded.status();
    drafter = *std::move(loaded);
  } else if (settings.source.predictor) {
    drafter = std::make_unique<engine::PredictingLayer>(runtime->get(), served->model->config().vocab_size);
  }
  if (auto profile = served->profiles->Resolve({}); profile.ok()) options.kv_events.default_profile = *profile;
  if (options.adapters.max_adapters > 0) {
    auto adapters = engine::AdapterSet::Create(served->model.get(), options.adapters);
    if (!adapters.ok()) return adapters.status();
    served->adapters = *std::move(adapters);
  }
  served->engine_options = options;
  served->engine = std::make_unique<engine::Engine>(options, served->model->config(), *std::move(runtime), &MonotonicNs,
                                                    served->step_observer.get(), std::move(drafter));
  return absl::OkStatus();
}

absl::Status StartEncoder(const ModelSettings& settings, const engine::TextFiles& files, ServedModel* served) {
  engine::EngineOptions options = settings.engine;
  if (options.adapters.max_adapters > 0) {
    return absl::FailedPreconditionError("an encoder takes no LoRA adapters; limit of models[].max_adapters is 0");
  }
  const auto embedding = engine::ReadEmbeddingSettings(files, served->model->config().classifier.num_labels);
  if (!embedding.ok()) return embedding.status();
  served->embedding = *embedding;
  if (served->model->config().classifier.num_labels > 0 && served->tokenizer != nullptr) {
    absl::StatusOr<text::PairFrame> frame = served->tokenizer->FindPairFrame();
    if (frame.ok()) served->pair_frame = *std::move(frame);
  }
  // The minimum of the configured limit and the directory's own.
  const int32_t own_limit = served->embedding.max_input_tokens;
  if (own_limit > 0 && (options.max_context_tokens == 0 || own_limit < options.max_context_tokens)) {
    options.max_context_tokens = own_limit;
  }
  auto runtime = engine::ModelEncoderRuntime::Create(served->model.get(), options);
  if (!runtime.ok()) return runtime.status();
  LogMemory(settings, (*runtime)->memory_plan());
  if (absl::Status status = WarmUp(*served, runtime->get()); !status.ok()) return status;
  served->engine_options = options;
  served->encoder = std::make_unique<engine::EncoderEngine>(options, served->model->config(), *std::move(runtime),
                                                            &MonotonicNs, served->step_observer.get());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(const ModelSettings& settings, kernels::Device* device,
                                                       std::shared_ptr<engine::StepObserver> step_observer,
                                                       const std::atomic<bool>& stop,
                                                       const std::vector<kernels::Device*>& ranks) {
  if (absl::Status status = engine::CheckBackendsEnabled(settings.engine); !status.ok()) return status;
  if (absl::Status status = engine::CheckFp8Recipe(settings.engine.fp8, settings.engine.deterministic); !status.ok()) {
    return Named(settings.name, status);
  }
  const engine::TimeNs start = MonotonicNs();
  auto served = std::make_unique<ServedModel>();
  served->name = settings.name;
  if (!settings.source.path.empty()) served->directory = std::filesystem::absolute(settings.source.path).string();
  served->step_observer = std::move(step_observer);

  const absl::StatusOr<engine::OpenedModel> opened = engine::OpenModelSource(settings.source, true);
  if (!opened.ok()) return Named(settings.name, opened.status());
  TextLoader text_loader(settings.source.path, opened->parsed.config.vocab_size);
  auto model = engine::LoadOpenedModel(*opened, settings.source, ranks.empty() ? std::vector{device} : ranks, &stop);
  if (!model.ok()) return Named(settings.name, model.status());
  served->model = *std::move(model);
  const engine::ModelConfig& config = served->model->config();

  auto text = text_loader.Take();
  if (!text.ok()) return Named(settings.name, text.status());
  const engine::TextFiles& files = *text->files;
  served->tokenizer = std::move(text->tokenizer);
  if (served->tokenizer == nullptr) {
    spdlog::warn("model \"{}\": has no tokenizer; it takes token ids only", settings.name);
  } else {
    WarnOfUnembedded(settings.name, *served->tokenizer, config.vocab_size);
  }
  if (config.is_encoder()) {
    served->chat_refusal = "it is an encoder";
  } else if (served->tokenizer != nullptr) {
    served->grammars = std::make_unique<GrammarCache>(GrammarLane::Model{served->tokenizer.get(), config.eos_token_ids,
                                                                         static_cast<int32_t>(config.vocab_size),
                                                                         settings.text_worker, settings.text_work});
    const absl::Status status = LoadChatTemplate(settings, files, served.get());
    if (!status.ok()) return Named(settings.name, status);
  }

  served->profiles =
      std::make_unique<engine::ProfileTable>(config, served->model->precisions(), *device, settings.engine,
                                             served->model->own_precision(), served->model->int8_inputs());
  if (absl::Status status = served->profiles->CheckServable(); !status.ok()) return Named(settings.name, status);
  absl::Status speculation =
      served->profiles->CheckSpeculation(settings.engine, settings.draft.given() || settings.source.predictor);
  if (!speculation.ok()) return Named(settings.name, speculation);
  if (stop) return Named(settings.name, absl::CancelledError("loading was stopped"));
  absl::Status started = config.is_encoder() ? StartEncoder(settings, files, served.get())
                                             : StartDecoder(settings, files, device, served.get(), stop);
  if (!started.ok()) return Named(settings.name, started);
  LogLoaded(settings, *served->model, start);
  return served;
}

}  // namespace dunlin::server

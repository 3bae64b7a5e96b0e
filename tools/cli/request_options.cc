// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/request_options.h"

#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace dunlin::cli {
namespace {

void AddSampling(CLI::App* app, SamplingOptions* options) {
  const char* group = "Sampling";
  for (const engine::DrawParamTraits& row : engine::kDrawParamTable) {
    const std::string name = absl::StrCat("--", absl::StrReplaceAll(row.name(), {{"_", "-"}}));
    const std::string help = row.help == nullptr ? LimitOf(row) : row.help;
    std::visit([&](const auto& param) { app->add_option(name, options->*param.given, help)->group(group); }, row.param);
  }
  app->add_option("--seed", options->seed, "Default: drawn by the server")->group(group);
  app->add_option("--logit-bias", options->logit_bias, "Added to logits: ID=BIAS,..., 50256=-100,11=2.5; repeatable")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app->add_option("--allowed-token-ids", options->allowed_token_ids, "Only these tokens may be drawn: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app->add_option("--bad-word", options->bad_words, "A text that must not be generated; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app->add_option("--bad-words-ids", options->bad_words_ids,
                  "A sequence of tokens that must not be generated: 1,2,3; repeatable")
      ->allow_extra_args(false)
      ->group(group);
  app->add_flag("--ignore-model-bans", options->ignore_model_bans,
                "Drop the suppressed tokens and bad words of the model's generation_config.json")
      ->group(group);
}

void AddStopping(CLI::App* app, StoppingOptions* options) {
  const char* group = "Stopping";
  app->add_option("--max-tokens", options->max_tokens, "Maximum number of tokens to generate")->group(group);
  app->add_option("--min-tokens", options->min_tokens, "Minimum number of tokens before stopping")->group(group);
  app->add_option("--stop", options->stop, "Stop string; repeatable")->allow_extra_args(false)->group(group);
  app->add_option("--stop-token-ids", options->stop_token_ids, "Stop at one of these tokens: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group(group);
  app->add_flag("--clamp-max-tokens", options->clamp_max_tokens,
                "Lower --max-tokens to what the context leaves instead of having it refused")
      ->group(group);
  app->add_flag("--ignore-eos", options->ignore_eos, "Continue after the end-of-sequence token")->group(group);
  app->add_flag("--include-stop", options->include_stop, "Keep a matched stop string in the text")->group(group);
}

void AddStructured(CLI::App* app, StructuredOptions* options) {
  const std::vector<CLI::Option*> constraints = {
      app->add_option("--json-schema", options->json_schema,
                      "The output is JSON of this schema: JSON, or @FILE. '{\"type\": \"object\", \"properties\": "
                      "{\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"]}'"),
      app->add_flag("--json-object", options->json_object, "The output is a JSON object"),
      app->add_option("--regex", options->regex, "The whole output matches this: '(yes|no), [a-z ]{1,40}'"),
      app->add_option("--choice", options->choices, "The output is one of these texts: --choice yes --choice no")
          ->allow_extra_args(false),
      app->add_option("--grammar", options->grammar_file,
                      "The output matches the grammar in this file: Lark, or GBNF")};
  for (size_t i = 0; i < constraints.size(); ++i) {
    constraints[i]->group("Structured output: one of these");
    for (size_t j = 0; j < i; ++j) constraints[i]->excludes(constraints[j]);
  }
}

absl::Status FillBias(const std::vector<std::string>& entries, v1::Sampling* sampling) {
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    int32_t token = 0;
    float bias = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(entry.substr(0, equals), &token) ||
        !absl::SimpleAtof(entry.substr(equals + 1), &bias)) {
      return absl::InvalidArgumentError(absl::StrCat("--logit-bias ", entry, " is not ID=BIAS"));
    }
    if (!sampling->mutable_logit_bias()->insert({token, bias}).second) {
      return absl::InvalidArgumentError(absl::StrCat("--logit-bias names the token ", token, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status FillBadWordsIds(const std::vector<std::string>& sequences, v1::Sampling* sampling) {
  for (const std::string& sequence : sequences) {
    v1::TokenIds* ids = sampling->add_bad_words_ids();
    for (const auto& word : absl::StrSplit(sequence, ',')) {
      int32_t id = 0;
      if (!absl::SimpleAtoi(word, &id)) {
        return absl::InvalidArgumentError(absl::StrCat("--bad-words-ids ", sequence, " is not a list of token ids"));
      }
      ids->add_ids(id);
    }
  }
  return absl::OkStatus();
}

// Sampling has a field of each name.
void FillDrawParams(const engine::DrawParamOverrides& options, v1::Sampling* sampling) {
  const google::protobuf::Reflection& reflection = *sampling->GetReflection();
  for (const engine::DrawParamTraits& row : engine::kDrawParamTable) {
    const google::protobuf::FieldDescriptor* field = sampling->GetDescriptor()->FindFieldByName(row.name());
    if (const auto* number = std::get_if<engine::FloatParam>(&row.param)) {
      if (options.*number->given) reflection.SetFloat(sampling, field, *(options.*number->given));
    } else {
      const std::optional<int32_t>& given = options.*std::get<engine::IntParam>(row.param).given;
      if (given) reflection.SetInt32(sampling, field, *given);
    }
  }
}

absl::Status FillSampling(const SamplingOptions& options, v1::Sampling* sampling) {
  FillDrawParams(options, sampling);
  if (options.seed) sampling->set_seed(*options.seed);
  sampling->mutable_allowed_token_ids()->Add(options.allowed_token_ids.begin(), options.allowed_token_ids.end());
  for (const std::string& word : options.bad_words) sampling->add_bad_words(word);
  sampling->set_ignore_model_bans(options.ignore_model_bans);
  if (absl::Status s = FillBias(options.logit_bias, sampling); !s.ok()) return s;
  return FillBadWordsIds(options.bad_words_ids, sampling);
}

void FillStopping(const StoppingOptions& options, v1::Stopping* stopping) {
  if (options.max_tokens) stopping->set_max_tokens(*options.max_tokens);
  if (options.min_tokens) stopping->set_min_tokens(*options.min_tokens);
  for (const std::string& stop : options.stop) stopping->add_stop(stop);
  stopping->mutable_stop_token_ids()->Add(options.stop_token_ids.begin(), options.stop_token_ids.end());
  stopping->set_ignore_eos(options.ignore_eos);
  stopping->set_clamp_max_tokens(options.clamp_max_tokens);
  stopping->set_include_stop(options.include_stop);
}

absl::Status FillStructured(const StructuredOptions& options, v1::StructuredOutput* structured) {
  if (options.json_schema) {
    absl::StatusOr<std::string> schema = TextOrFile("--json-schema", *options.json_schema);
    if (!schema.ok()) return schema.status();
    structured->set_json_schema(*std::move(schema));
  }
  if (options.json_object) structured->set_json_object(true);
  if (options.regex) structured->set_regex(*options.regex);
  for (const std::string& choice : options.choices) structured->mutable_choice()->add_texts(choice);
  if (options.grammar_file) {
    absl::StatusOr<std::string> grammar = FileText("--grammar", *options.grammar_file);
    if (!grammar.ok()) return grammar.status();
    structured->set_grammar(*std::move(grammar));
  }
  return absl::OkStatus();
}

}  // namespace

const char* StructuredOptions::name() const {
  if (json_schema) return "--json-schema";
  if (json_object) return "--json-object";
  if (regex) return "--regex";
  if (!choices.empty()) return "--choice";
  return grammar_file ? "--grammar" : "";
}

void AddRequestOptions(CLI::App* subcommand, RequestOptions* options) {
  subcommand->add_option("--model", options->model,
                         "Name of a served model; may be left out when the server has one that generates");
  AddServerOptions(subcommand, &options->server);
  AddExecutionOptions(subcommand, &options->execution);
  AddSpeculationOption(subcommand, &options->execution);
  AddSampling(subcommand, &options->sampling);
  AddStopping(subcommand, &options->stopping);
  AddStructured(subcommand, &options->structured);
  subcommand->add_option("--cache-salt", options->cache_salt, "Share cached prefixes only with this salt");
  subcommand->add_option("--priority", options->priority, "Higher runs first");
  subcommand->add_option("--timeout-ms", options->timeout_ms, "Deadline of a call; 0: none");
}

absl::Status FillRequest(const RequestOptions& options, v1::GenerateRequest* request) {
  request->set_model(options.model);
  if (absl::Status s = FillSampling(options.sampling, request->mutable_sampling()); !s.ok()) return s;
  FillStopping(options.stopping, request->mutable_stopping());
  if (options.structured.any()) {
    if (absl::Status s = FillStructured(options.structured, request->mutable_structured_output()); !s.ok()) return s;
  }
  *request->mutable_execution() = ExecutionNamed(options.execution);
  request->set_priority(options.priority);
  request->set_cache_salt(options.cache_salt);
  return absl::OkStatus();
}

}  // namespace dunlin::cli

// SPDX-License-Identifier: Apache-2.0
// `dunlin key new`: draws a key, prints it once, and prints its entry for the key file or adds it there.
#include <csignal>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/access/key_digest.h"
#include "server/access/key_entry.h"
#include "server/access/key_set.h"
#include "server/commands/command.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

struct KeyOptions {
  std::string name;
  std::string file;
  std::vector<std::string> permissions;
  std::vector<std::string> models;
  std::vector<std::string> attention_backends;
  std::vector<std::string> precisions;
  int max_priority = 0;
  int64_t requests_per_minute = -1;  // -1: unlimited
  int64_t tokens_per_minute = -1;
  int64_t max_concurrent = -1;
  int expires_in_days = 0;
};

void SetUnlessEmpty(const char* field, const std::vector<std::string>& values, Json* entry) {
  if (!values.empty()) (*entry)[field] = values;
}

void SetUnlessNegative(const char* field, int64_t value, Json* entry) {
  if (value >= 0) (*entry)[field] = value;
}

// What the options say of the key; nothing but name and hash when they say nothing.
Json EntryOf(const KeyOptions& options, const std::string& key) {
  Json entry = {{"name", options.name}, {"hashes", {DigestText(DigestOf(key))}}};
  SetUnlessEmpty("permissions", options.permissions, &entry);
  SetUnlessEmpty("models", options.models, &entry);
  if (options.max_priority != 0) entry["max_priority"] = options.max_priority;
  SetUnlessNegative("requests_per_minute", options.requests_per_minute, &entry);
  SetUnlessNegative("tokens_per_minute", options.tokens_per_minute, &entry);
  SetUnlessNegative("max_concurrent", options.max_concurrent, &entry);
  SetUnlessEmpty("attention_backends", options.attention_backends, &entry);
  SetUnlessEmpty("precisions", options.precisions, &entry);
  if (options.expires_in_days > 0) {
    const absl::Time end = absl::Now() + absl::Hours(24) * options.expires_in_days;
    entry["not_after"] = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", end, absl::UTCTimeZone());
  }
  return entry;
}

// Of an entry that is printed and not added to a file, as the file would be checked.
absl::Status Check(const Json& entry) {
  return WithEntry("", entry, "entry").status();
}

// A key that nobody has seen must not be in force. Where the reader of a pipe is gone, too, this fails.
absl::Status Print(std::string text) {
  std::signal(SIGPIPE, SIG_IGN);
  std::cout << text << std::flush;
  Wipe(&text);
  if (std::cout.good()) return absl::OkStatus();
  return absl::UnavailableError("the key cannot be printed, and is in no file");
}

// JSON, which the key file is, has no other texts.
absl::Status CheckUtf8(const KeyOptions& options) {
  std::vector<std::string> texts = {options.name};
  for (const auto* list : {&options.permissions, &options.models, &options.attention_backends, &options.precisions}) {
    texts.insert(texts.end(), list->begin(), list->end());
  }
  for (const std::string& text : texts) {
    if (text::IsValidUtf8(text)) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::CHexEscape(text), "\" is not UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status AddKey(const KeyOptions& options) {
  if (absl::Status status = CheckUtf8(options); !status.ok()) return status;
  std::string key = DrawKey();
  const Json entry = EntryOf(options, key);
  absl::Status status;
  if (options.file.empty()) {
    status = Check(entry);
    if (status.ok()) status = Print(absl::StrCat(key, "\n", CompleteEntry(entry).dump(), "\n"));
  } else {
    status = AddEntry(options.file, entry, [&key] { return Print(key + "\n"); });
  }
  Wipe(&key);
  return status;
}

int RunKeyNew(const KeyOptions& options) {
  const absl::Status status = AddKey(options);
  if (status.ok()) return kExitOk;
  std::cerr << "dunlin key: " << status.message() << "\n";
  return kExitFailed;
}

void AddLimits(CLI::App* subcommand, KeyOptions* options) {
  const auto list = [subcommand](const char* name, std::vector<std::string>* values, const char* text) {
    subcommand->add_option(name, *values, text)->delimiter(',')->allow_extra_args(false);
  };
  list("--permission", &options->permissions, "What the key may do: infer (the default), metrics, admin");
  list("--model", &options->models, "Models that it may use, by name; * (the default): all");
  list("--attention-backend", &options->attention_backends, "Attention backends that it may ask for; by default all");
  list("--precision", &options->precisions, "Precisions that it may ask for; by default all");
  const auto limit = [subcommand](const char* name, int64_t* value, const char* text) {
    subcommand->add_option(name, *value, text)->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  };
  limit("--requests-per-minute", &options->requests_per_minute,
        "Requests that it may make in a minute; by default any");
  limit("--tokens-per-minute", &options->tokens_per_minute,
        "Tokens of prompts and outputs that it may use in a minute; by default any");
  limit("--max-concurrent", &options->max_concurrent, "Requests that it may have at once; by default any");
  subcommand->add_option("--max-priority", options->max_priority, "Highest priority that it may ask for")
      ->capture_default_str();
  subcommand->add_option("--expires-in-days", options->expires_in_days, "It is refused after so many days; 0: never")
      ->check(CLI::Range(0, 36500));
}

}  // namespace

std::function<int()> SetUpKey(CLI::App* subcommand) {
  auto options = std::make_shared<KeyOptions>();
  subcommand->require_subcommand(1);
  CLI::App* create = subcommand->add_subcommand("new", "Draw a key: printed once, kept nowhere");
  create->add_option("--name", options->name, "Name of the holder, for logs and metrics")->required();
  create->add_option("--file", options->file,
                     "Key file to add the entry to; if the name has one, it gets the key as a further one. Without it "
                     "the entry is printed on the second line");
  AddLimits(create, options.get());
  return [options] { return RunKeyNew(*options); };
}

}  // namespace dunlin::server

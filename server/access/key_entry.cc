// SPDX-License-Identifier: Apache-2.0
#include "server/access/key_entry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/access/key_file.h"
#include "server/access/key_set.h"

namespace dunlin::server {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr mode_t kNewFileMode = 0640;
constexpr size_t kNameAndHashes = 2;

OrderedJson* EntryNamed(const std::string& name, OrderedJson* document) {
  for (OrderedJson& entry : (*document)["keys"]) {
    if (entry["name"] == name) return &entry;
  }
  return nullptr;
}

std::string ErrorText() {
  return std::error_code(errno, std::generic_category()).message();
}

// Writes the text to a file that is open, to the disk.
absl::Status WriteAll(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return absl::UnavailableError(ErrorText());
    if (written > 0) done += static_cast<size_t>(written);
  }
  return fsync(fd) == 0 ? absl::OkStatus() : absl::UnavailableError(ErrorText());
}

// The file's new text goes into `fd`, which is PATH.new.
absl::Status WriteWithEntry(const std::string& path, const OrderedJson& entry, int fd) {
  struct stat old {};
  const bool exists = stat(path.c_str(), &old) == 0;
  std::string text;
  if (exists) {
    absl::StatusOr<std::string> read = ReadKeyFile(path);
    if (!read.ok()) return read.status();
    text = *std::move(read);
    if (fchmod(fd, old.st_mode & 07777) != 0) return absl::UnavailableError(ErrorText());
    if (fchown(fd, old.st_uid, old.st_gid) != 0 && errno != EPERM) return absl::UnavailableError(ErrorText());
  }
  const absl::StatusOr<std::string> changed = WithEntry(text, entry, path);
  return changed.ok() ? WriteAll(fd, *changed) : changed.status();
}

}  // namespace

OrderedJson CompleteEntry(OrderedJson entry) {
  if (!entry.contains("permissions")) entry["permissions"] = {Name(Permission::kInfer)};
  if (!entry.contains("models")) entry["models"] = {"*"};
  return entry;
}

absl::StatusOr<std::string> WithEntry(const std::string& text, const OrderedJson& entry, const std::string& where) {
  OrderedJson document = {{"keys", OrderedJson::array()}};
  if (!text.empty()) {
    const auto parsed = KeySet::Parse(text, where);
    if (!parsed.ok()) return parsed.status();
    document = OrderedJson::parse(text);
  }
  const auto name = entry["name"].get<std::string>();
  OrderedJson* const own = EntryNamed(name, &document);
  if (own == nullptr) {
    document["keys"].push_back(CompleteEntry(entry));
  } else if (entry.size() == kNameAndHashes) {
    for (const OrderedJson& hash : entry["hashes"]) (*own)["hashes"].push_back(hash);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has an entry of the name \"", name,
                     "\", which gets another key: what it may do is changed in the file"));
  }
  std::string changed = document.dump(2) + "\n";
  const auto checked = KeySet::Parse(changed, where);
  if (!checked.ok()) return checked.status();
  return changed;
}

absl::Status AddEntry(const std::string& path, const OrderedJson& entry, const std::function<absl::Status()>& show) {
  const std::string next = path + ".new";  // beside it, so that a rename replaces it; of one process at a time
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  if (fd < 0 && errno == EEXIST) {
    return absl::AbortedError(
        absl::StrCat(next, " exists: another command is changing the file; remove it if none is"));
  }
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot write ", next, ": ", ErrorText()));
  absl::Status status = WriteWithEntry(path, entry, fd);
  close(fd);
  if (status.ok()) status = show();
  if (status.ok() && rename(next.c_str(), path.c_str()) != 0) status = absl::UnavailableError(ErrorText());
  if (!status.ok()) unlink(next.c_str());
  return status;
}

}  // namespace dunlin::server

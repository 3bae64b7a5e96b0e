// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/descriptor_lookup.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <set>

namespace dunlin::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

const DescriptorPool& Pool() {
  return *DescriptorPool::generated_pool();
}

void AddWithImports(const FileDescriptor& file, std::set<std::string>* seen, DescriptorFiles* files) {
  if (!seen->insert(file.name()).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  files->push_back(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddWithImports(*file.dependency(i), seen, files);
}

absl::StatusOr<DescriptorFiles> FilesOf(const FileDescriptor* file) {
  if (file == nullptr) return absl::NotFoundError("no such file or symbol");
  std::set<std::string> seen;
  DescriptorFiles files;
  AddWithImports(*file, &seen, &files);
  return files;
}

}  // namespace

absl::StatusOr<DescriptorFiles> FilesByName(const std::string& file_name) {
  return FilesOf(Pool().FindFileByName(file_name));
}

absl::StatusOr<DescriptorFiles> FilesOfSymbol(const std::string& symbol) {
  return FilesOf(Pool().FindFileContainingSymbol(symbol));
}

absl::StatusOr<DescriptorFiles> FilesOfExtension(const std::string& containing_type, int32_t number) {
  const Descriptor* type = Pool().FindMessageTypeByName(containing_type);
  const FieldDescriptor* extension = type == nullptr ? nullptr : Pool().FindExtensionByNumber(type, number);
  return FilesOf(extension == nullptr ? nullptr : extension->file());
}

absl::StatusOr<std::vector<int32_t>> ExtensionNumbers(const std::string& containing_type) {
  const Descriptor* type = Pool().FindMessageTypeByName(containing_type);
  if (type == nullptr) return absl::NotFoundError("no such message type");
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  std::vector<int32_t> numbers;
  numbers.reserve(extensions.size());
  for (const FieldDescriptor* extension : extensions) numbers.push_back(extension->number());
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/model_documents.h"

#include <vector>

#include "server/fronts/kserve/infer_fields.h"
#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/tensor_codec.h"

namespace dunlin::server::kserve {
namespace {

constexpr char kServerName[] = "dunlin";
constexpr char kBackend[] = "dunlin";
constexpr const char* kExtensions[] = {"model_repository", "model_configuration", "binary_tensor_data", "parameters",
                                       "statistics"};
constexpr int64_t kAnySize = -1;

struct Tensor {
  std::string_view name;
  const char* datatype;
  std::vector<int64_t> shape;
  bool optional = false;
};

bool IsEncoder(const ServedModel& model) {
  return model.encoder != nullptr;
}

std::vector<Tensor> InputsOf(const ServedModel& model) {
  const CallSet call = IsEncoder(model) ? kEmbed : kGenerate;
  std::vector<Tensor> tensors;
  for (const InferFieldRow& row : InferFieldRows()) {
    if ((row.calls & call) == 0 || row.datatype == nullptr) continue;
    const bool many = IsEncoder(model) && tensors.empty();  // text_input: one element per input
    tensors.push_back({row.name, row.datatype, {many ? kAnySize : 1}, !tensors.empty()});
  }
  if (!IsEncoder(model)) tensors.push_back({"sampling_parameters", "BYTES", {1}, true});
  return tensors;
}

std::vector<Tensor> OutputsOf(const ServedModel& model) {
  if (IsEncoder(model)) return {{kEmbeddingOutput, "FP32", {kAnySize, model.model->config().hidden_dim}}};
  std::vector<Tensor> tensors;
  for (const OutputRow& row : OutputRows()) {
    if (row.listed) tensors.push_back({row.name, row.datatype, {kAnySize}});
  }
  return tensors;
}

void DescribeTensor(const Tensor& tensor, inference::ModelMetadataResponse::TensorMetadata* out) {
  out->set_name(std::string(tensor.name));
  out->set_datatype(tensor.datatype);
  out->mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
}

template <class Out>
void Configure(const Tensor& tensor, Out* out) {
  out->set_name(std::string(tensor.name));
  out->set_data_type(FindDatatype(tensor.datatype)->config);
  out->mutable_dims()->Assign(tensor.shape.begin(), tensor.shape.end());
}

}  // namespace

void DescribeServer(const std::string& version, inference::ServerMetadataResponse* out) {
  out->set_name(kServerName);
  out->set_version(version);
  for (const char* extension : kExtensions) out->add_extensions(extension);
}

void DescribeModel(const NamedModel& named, inference::ModelMetadataResponse* out) {
  const ServedModel& model = *named.model;
  out->set_name(named.name);
  out->add_versions(kModelVersion);
  out->set_platform(model.model->config().architecture);
  for (const Tensor& tensor : InputsOf(model)) DescribeTensor(tensor, out->add_inputs());
  for (const Tensor& tensor : OutputsOf(model)) DescribeTensor(tensor, out->add_outputs());
}

void DescribeConfig(const NamedModel& named, inference::ModelConfig* out) {
  const ServedModel& model = *named.model;
  out->set_name(named.name);
  out->set_platform(model.model->config().architecture);
  out->set_backend(kBackend);
  out->set_max_batch_size(0);
  for (const Tensor& tensor : InputsOf(model)) {
    inference::ModelInput* input = out->add_input();
    Configure(tensor, input);
    input->set_optional(tensor.optional);
  }
  for (const Tensor& tensor : OutputsOf(model)) Configure(tensor, out->add_output());
  out->mutable_model_transaction_policy()->set_decoupled(!IsEncoder(model));
}

}  // namespace dunlin::server::kserve

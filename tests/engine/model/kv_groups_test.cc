// SPDX-License-Identifier: Apache-2.0
#include "engine/request/kv_groups.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "engine/model/spec/attention_shape.h"

namespace dunlin::engine {
namespace {

ModelConfig ConfigOf(const std::vector<int32_t>& windows) {
  ModelConfig config;
  config.num_layers = static_cast<int32_t>(windows.size());
  config.attention.num_heads = config.attention.num_kv_heads = 1;
  config.attention.head_dim = 2;
  config.max_context = 1000;
  config.attention.layer_windows = windows;
  return config;
}

// Of `layers` layers, every period-th sees all tokens; the others see `window`.
std::vector<int32_t> Alternate(int32_t layers, int32_t period, int32_t window) {
  std::vector<int32_t> windows;
  for (int32_t layer = 0; layer < layers; ++layer) windows.push_back((layer + 1) % period == 0 ? 0 : window);
  return windows;
}

void ExpectGroups(const ModelConfig& config, int32_t layers_per_page, int32_t num_full, int32_t num_sliding) {
  const KvGroups groups = KvGroupsOf(config);
  EXPECT_EQ(groups.layers_per_page, layers_per_page);
  EXPECT_EQ(groups.num_full, num_full);
  EXPECT_EQ(groups.num_sliding, num_sliding);
  EXPECT_EQ(KvShapeOf(config).num_layers, layers_per_page);
}

TEST(KvGroups, OneGroupWhereAllLayersAreAlike) {
  ExpectGroups(ConfigOf({0, 0, 0}), 3, 1, 0);
  ExpectGroups(ConfigOf({20, 20, 20}), 3, 0, 1);
  ExpectGroups(ConfigOf({1000, 1000}), 2, 1, 0);  // a window of the whole context
  EXPECT_EQ(KvGroupsOf(ConfigOf({20, 30, 10})).window, 30);
}

TEST(KvGroups, DivideAlternatingLayersWithFewEmptyPlaces) {
  ExpectGroups(ConfigOf(Alternate(24, 2, 128)), 12, 1, 1);  // GPT-OSS 20B
  ExpectGroups(ConfigOf(Alternate(26, 2, 100)), 13, 1, 1);  // Gemma 2 2B
  ExpectGroups(ConfigOf(Alternate(26, 6, 100)), 2, 2, 11);  // Gemma 3 1B: 4 full, 22 sliding
  ExpectGroups(ConfigOf(Alternate(34, 6, 100)), 6, 1, 5);   // Gemma 3 4B: 5 full, 29 sliding; 2 places are empty
  ExpectGroups(ConfigOf(Alternate(62, 6, 100)), 13, 1, 4);  // Gemma 3 27B: 10 full, 52 sliding; 3 places are empty
  ExpectGroups(ConfigOf(Alternate(64, 4, 100)), 16, 1, 3);  // OLMo 3 32B
}

// Every period-th layer sees all tokens with `full` heads, the others 1024 with `sliding` ones.
ModelConfig TwoShapes(int32_t layers, int32_t period, HeadShape full, HeadShape sliding) {
  ModelConfig config = ConfigOf(Alternate(layers, period, 512));
  config.attention.num_heads = full.num_heads;
  config.attention.num_kv_heads = full.num_kv_heads;
  config.attention.head_dim = full.head_dim;
  for (const int32_t window : config.attention.layer_windows) {
    config.attention.layer_heads.push_back(window == 0 ? full : sliding);
  }
  return config;
}

TEST(KvGroups, PagesOfTwoShapesHaveOneSize) {
  const ModelConfig config = TwoShapes(30, 6, {16, 2, 512}, {16, 8, 256});  // Gemma 4 26B: 5 full, 25 sliding
  const std::vector<kernels::KvShape> shapes = KvShapesOf(config);
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[0].head_dim, 512);
  EXPECT_EQ(shapes[0].num_layers, 4) << "twice as many of half the width";
  EXPECT_EQ(shapes[1].head_dim, 256);
  EXPECT_EQ(shapes[1].num_layers, 2);
  const KvGroups groups = KvGroupsOf(config);
  EXPECT_EQ(groups.num_full, 2);
  EXPECT_EQ(groups.num_sliding, 13);
  for (const kernels::DType dtype : {kernels::DType::kF32, kernels::DType::kBF16, kernels::DType::kF8E4M3}) {
    const kernels::KvLayout full = KvLayoutOf(shapes, 0, dtype);
    const kernels::KvLayout sliding = KvLayoutOf(shapes, 1, dtype);
    EXPECT_EQ(full.page_bytes, sliding.page_bytes);
    EXPECT_GE(full.page_bytes, 4 * full.layer_bytes);
    EXPECT_GE(sliding.page_bytes, 2 * sliding.layer_bytes);
  }
  std::set<std::pair<int32_t, int32_t>> places;
  const std::vector<KvPlace> of_layers = KvPlacesOf(config);
  for (int32_t layer = 0; layer < 30; ++layer) {
    const KvPlace& place = of_layers[static_cast<size_t>(layer)];
    const kernels::KvShape& shape = shapes[static_cast<size_t>(place.shape)];
    EXPECT_EQ(shape.head_dim, config.attention.heads(layer).head_dim);
    EXPECT_LT(place.layer_in_page, shape.num_layers);
    EXPECT_EQ(groups.slides(place.group), config.attention.window(layer) > 0);
    places.emplace(place.group, place.layer_in_page);
  }
  EXPECT_EQ(places.size(), 30U);
}

TEST(KvGroups, ShapesDivideLayersThatAllSeeEveryToken) {
  ModelConfig config = TwoShapes(4, 2, {4, 1, 32}, {4, 2, 16});
  config.attention.layer_windows.clear();
  const KvGroups groups = KvGroupsOf(config);
  EXPECT_EQ(groups.num_full, 2);
  EXPECT_EQ(groups.num_sliding, 0);
  EXPECT_EQ(KvShapesOf(config).size(), 2U);
  EXPECT_EQ(AttentionTraitsOf(config, kernels::DType::kBF16).size(), 2U);
}

TEST(KvGroups, LayersThatShareKeysAndValuesHaveOnePlace) {
  ModelConfig config = TwoShapes(6, 2, {4, 1, 32}, {4, 2, 16});
  config.attention.kv_sources = {0, 1, 2, 3, 2, 3};
  EXPECT_EQ(config.attention.qkv_features(5), config.attention.query_features(5));
  const std::vector<KvPlace> places = KvPlacesOf(config);
  for (const int32_t layer : {4, 5}) {
    const KvPlace& place = places[static_cast<size_t>(layer)];
    const KvPlace& source = places[static_cast<size_t>(layer - 2)];
    EXPECT_EQ(place.group, source.group);
    EXPECT_EQ(place.layer_in_page, source.layer_in_page);
    EXPECT_EQ(place.shape, source.shape);
  }
  EXPECT_EQ(KvGroupsOf(config).count(), 2) << "of four layers";
  EXPECT_EQ(KvShapesOf(config)[0].num_layers, 2);
}

TEST(KvGroups, AnEncoderHasOnePlace) {
  ModelConfig config = ConfigOf({9, 0, 9});
  config.kind = ModelKind::kEncoder;
  ExpectGroups(config, 1, 1, 0);
  const std::vector<KvPlace> places = KvPlacesOf(config);
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[2].group, 0);
  EXPECT_EQ(places[2].layer_in_page, 0);
}

TEST(KvGroups, EveryLayerHasAPlaceOfItsOwnInAGroupOfItsKind) {
  for (const int32_t layers : {1, 2, 5, 26, 34, 48, 62}) {
    for (const int32_t period : {1, 2, 4, 6, 100}) {
      const ModelConfig config = ConfigOf(Alternate(layers, period, 128));
      const KvGroups groups = KvGroupsOf(config);
      EXPECT_LE(groups.count(), kMaxKvGroups);
      std::set<std::pair<int32_t, int32_t>> places;
      const std::vector<KvPlace> of_layers = KvPlacesOf(config);
      ASSERT_EQ(of_layers.size(), static_cast<size_t>(layers));
      for (int32_t layer = 0; layer < layers; ++layer) {
        const KvPlace& place = of_layers[static_cast<size_t>(layer)];
        EXPECT_LT(place.group, groups.count());
        EXPECT_LT(place.layer_in_page, groups.layers_per_page);
        EXPECT_EQ(groups.slides(place.group), config.attention.window(layer) > 0);
        places.emplace(place.group, place.layer_in_page);
      }
      EXPECT_EQ(places.size(), static_cast<size_t>(layers));
    }
  }
}

// A sequence that computes its tokens in steps and gives back what no later token reads.
int64_t MostHeld(const KvGroups& groups, int32_t num_tokens, int32_t page_tokens, int32_t step_tokens, int32_t first) {
  int64_t most = 0;
  for (int32_t computed = 0; computed < num_tokens;) {
    const int32_t end = std::min(num_tokens, computed + (computed == 0 ? first : step_tokens));
    const int64_t blocks = (end + page_tokens - 1) / page_tokens;
    const int64_t behind = groups.num_sliding == 0 ? 0 : groups.FirstRead(computed) / page_tokens;
    most = std::max(most, groups.num_full * blocks + groups.num_sliding * (blocks - behind));
    computed = end;
  }
  return most;
}

TEST(KvGroups, MostPagesBoundsWhatASequenceHolds) {
  for (const KvGroups& groups :
       {KvGroups{1, 1, 0, 0}, KvGroups{1, 0, 1, 1}, KvGroups{1, 0, 1, 7}, KvGroups{1, 2, 3, 20}}) {
    for (const int32_t page_tokens : {1, 4, 16}) {
      for (const int32_t step_tokens : {1, 3, 16, 50}) {
        for (int32_t tokens = 1; tokens < 90; ++tokens) {
          int64_t held = 0;
          for (int32_t first = 1; first <= step_tokens; ++first) {
            held = std::max(held, MostHeld(groups, tokens, page_tokens, step_tokens, first));
          }
          const int64_t most = groups.MostPages(tokens, page_tokens, step_tokens);
          ASSERT_LE(held, most) << groups.window << " " << page_tokens << " " << step_tokens << " " << tokens;
          const bool tight = tokens > 60 && step_tokens < 16;  // every place of a step in its pages has come
          ASSERT_TRUE(!tight || held == most)
              << groups.window << " " << page_tokens << " " << step_tokens << " " << tokens;
          ASSERT_GE(groups.TokensThatFit(most, 90, page_tokens, step_tokens), tokens);
          ASSERT_LT(groups.TokensThatFit(most - 1, 90, page_tokens, step_tokens), tokens);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::engine

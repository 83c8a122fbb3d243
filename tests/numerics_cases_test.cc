// Faults met in other engines, of the kind "numerics", as tests named after their reports.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <thread>

#include "engine_for_test.h"
#include "plain_model_for_test.h"

namespace sprat {
namespace {

// 40 texts of 1 to 250 words, from a seed.
std::vector<std::string> FortyTexts() {
  const std::vector<std::string> words = {"good", "morning", "river", "bank", "rain", "x1y2", "?"};
  std::mt19937_64 random(7);
  std::vector<std::string> texts;
  for (size_t i = 0; i < 40; ++i) {
    std::string text;
    const size_t length = i == 0 ? 1 : i == 1 ? 250 : 1 + random() % 250;
    for (size_t w = 0; w < length; ++w) text += words[random() % words.size()] + " ";
    texts.push_back(text);
  }
  return texts;
}

TinyModel LongModel() {
  TinyModel model;
  model.config.positions = 1024;
  return model;
}

TEST(B36, AVectorDoesNotDependOnItsNeighbours) {
  const std::vector<std::string> texts = FortyTexts();
  const std::filesystem::path directory = LongModel().Write();
  const Engine reference = OpenOrDie(directory, {.threads = 1});
  std::vector<std::vector<float>> alone;
  for (const std::string& text : texts) alone.push_back(VectorOf(reference, text));
  for (const size_t threads : {1u, 2u, 4u}) {
    const Engine engine = OpenOrDie(directory, {.threads = threads});
    const Embeddings together = EmbedOrDie(engine, texts);
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(SameBits(together.Row(i), alone[i])) << "text " << i << ", threads " << threads;
      EXPECT_TRUE(SameBits(VectorOf(engine, texts[i]), alone[i])) << i;
    }
    std::vector<size_t> order(texts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(threads));
    std::vector<std::string> shuffled;
    for (const size_t i : order) shuffled.push_back(texts[i]);
    const Embeddings rows = EmbedOrDie(engine, shuffled);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_TRUE(SameBits(rows.Row(i), alone[order[i]])) << "shuffled " << i;
    }
  }
}

TEST(B36, ConcurrentCallsGetTheirOwnVectors) {
  const std::vector<std::string> texts = FortyTexts();
  const Engine engine = OpenOrDie(LongModel());
  const Embeddings expected = EmbedOrDie(engine, texts);
  std::vector<std::vector<float>> found(texts.size());
  std::vector<std::thread> callers;
  for (size_t i = 0; i < texts.size(); ++i) {
    callers.emplace_back([&, i] { found[i] = VectorOf(engine, texts[i]); });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(SameBits(found[i], expected.Row(i))) << i;
  }
}

// PlainModel with attention: a token's scores are +40 with itself, -40 with its opposite, 0 with
// the others; its heads' output is what it attends to, and the layer adds that. exp(-40) is 4e-18,
// so each token attends to itself alone and its hidden state stays as it was.
TinyModel SharpModel(float query_scale) {
  TinyModel model = PlainModel();
  const auto plain = model.edit;
  model.edit = [plain, query_scale](TestTensor& tensor) {
    plain(tensor);
    const bool query = tensor.name.ends_with("self.query.weight");
    if (!query && !tensor.name.ends_with("self.key.weight") &&
        !tensor.name.ends_with("self.value.weight") &&
        !tensor.name.ends_with("attention.output.dense.weight")) {
      return;
    }
    const size_t hidden = tensor.shape[1];
    for (size_t i = 0; i < hidden; ++i) {
      tensor.values[i * hidden + i] = query ? query_scale : 1.0f;
    }
  };
  return model;
}

TEST(B38, LargeScoresNeitherOverflowNorVanish) {
  // The score of a token with itself is scale * 32 / sqrt(32): 40, 400 and 40,000.
  for (const float scale : {7.0710678f, 70.710678f, 7071.0678f}) {
    const Engine engine = OpenOrDie(SharpModel(scale));
    const std::vector<float> vector = VectorOf(engine, "good morning", {.normalize = false});
    const std::vector<float> mean = {0.5f, -0.5f, 0.0f, 0.0f};
    for (size_t i = 0; i < vector.size(); ++i) EXPECT_NEAR(vector[i], mean[i % 4], 1e-6) << scale;
  }
}

TEST(B38, AShortTextBesideALongOneIsFinite) {
  const Engine engine = OpenOrDie(LongModel());
  const Embeddings rows = EmbedOrDie(engine, {"good", Repeated("word ", 250)});
  EXPECT_TRUE(AllFinite(rows.values));
  EXPECT_NEAR(Norm(rows.Row(0)), 1.0, 1e-6);
  EXPECT_TRUE(SameBits(rows.Row(0), VectorOf(engine, "good")));
}

// PlainModel whose last LayerNorm has +-1e-3 before it: the bias of the layer's last linear.
std::vector<float> NormOfSmall(const std::string& eps) {
  TinyModel model = PlainModel();
  const auto plain = model.edit;
  model.edit = [plain](TestTensor& tensor) {
    plain(tensor);
    if (tensor.name == "encoder.layer.0.attention.output.LayerNorm.weight") {
      std::fill(tensor.values.begin(), tensor.values.end(), 0.0f);
    }
    if (tensor.name == "encoder.layer.0.output.dense.bias") {
      for (size_t i = 0; i < tensor.values.size(); ++i) {
        tensor.values[i] = i % 2 == 0 ? 1e-3f : -1e-3f;
      }
    }
  };
  model.config_json["layer_norm_eps"] = eps;
  return VectorOf(OpenOrDie(model), "good morning", {.normalize = false});
}

TEST(B42, LayerNormEpsIsTheFiles) {
  // 1e-3 / sqrt(1e-6 + eps)
  for (const auto& [eps, expected] :
       {std::pair("1e-12", 0.9999995), std::pair("1e-5", 0.3015113), std::pair("", 0.9999995)}) {
    const std::vector<float> vector = NormOfSmall(eps);
    for (size_t i = 0; i < vector.size(); ++i) {
      EXPECT_NEAR(vector[i], i % 2 == 0 ? expected : -expected, 2e-7) << "eps " << eps;
    }
  }
}

TEST(B44, AbsentAndAbsolutePositionsAreTheSame) {
  const auto vector = [](const std::string& json) {
    TinyModel model;
    model.config_json["position_embedding_type"] = json;
    return VectorOf(OpenOrDie(model), "good morning");
  };
  EXPECT_TRUE(SameBits(vector(""), vector("\"absolute\"")));
  for (const std::string type : {"relative_key", "rope", "alibi"}) {
    TinyModel model;
    model.config_json["position_embedding_type"] = JsonQuoted(type);
    EXPECT_EQ(OpenFault(model.Write(), ErrorCode::kUnsupported),
              "DIR/config.json: position_embedding_type '" + type +
                  "' is not supported; supported: absolute");
  }
}

}  // namespace
}  // namespace sprat

#include "cli/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace sprat::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelPath : public ::testing::Test {
 protected:
  ModelPath() {
    std::string name = (fs::temp_directory_path() / "sprat_models_XXXXXX").string();
    home_ = mkdtemp(name.data());
    variables_["HOME"] = home_.string();
  }
  ~ModelPath() override { fs::remove_all(home_); }

  fs::path Model(const fs::path& directory) {
    fs::create_directories(home_ / directory);
    std::ofstream(home_ / directory / "config.json") << "{}";
    return home_ / directory;
  }
  // Where FindModel looks, or its message.
  std::string Find(const std::optional<std::string>& name) {
    Result<fs::path> found = FindModel(name, [this](const char* variable) {
      const auto it = variables_.find(variable);
      return it == variables_.end() ? std::nullopt : std::optional(it->second);
    });
    return found.ok() ? found.value().string() : found.error().message();
  }

  fs::path home_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ModelPath, ADirectory) {
  const fs::path model = Model("anywhere/m");
  EXPECT_EQ(Find(model.string()), model);
}

TEST_F(ModelPath, ADirectoryWithoutConfigJson) {
  for (const char* file : {"modules.json", "config_sentence_transformers.json"}) {
    const fs::path model = Model("anywhere/m");
    fs::rename(model / "config.json", model / file);
    EXPECT_EQ(Find(model.string()), model) << file;
    fs::remove_all(model);
  }
}

TEST_F(ModelPath, AShortName) {
  const fs::path model = Model(".cache/sprat/models/m");
  EXPECT_EQ(Find("m"), model);
  const fs::path other = Model("elsewhere/m");
  variables_["SPRAT_MODELS"] = (home_ / "elsewhere").string();
  EXPECT_EQ(Find("m"), other);
}

TEST_F(ModelPath, HuggingFaceCacheFollowsRefsMain) {
  const fs::path hub = ".cache/huggingface/hub";
  const fs::path old_one = Model(hub / "models--org--m/snapshots/aaa");
  const fs::path new_one = Model(hub / "models--org--m/snapshots/bbb");
  fs::last_write_time(old_one, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(Find("org/m"), new_one);
  fs::create_directories(home_ / hub / "models--org--m/refs");
  std::ofstream(home_ / hub / "models--org--m/refs/main") << "aaa";
  EXPECT_EQ(Find("org/m"), old_one);
  std::ofstream(home_ / hub / "models--org--m/refs/main") << "gone";
  EXPECT_EQ(Find("org/m"), new_one);
}

TEST_F(ModelPath, HuggingFaceVariables) {
  const fs::path in_home = Model("hf/hub/models--org--m/snapshots/aaa");
  variables_["HF_HOME"] = (home_ / "hf").string();
  EXPECT_EQ(Find("org/m"), in_home);
  const fs::path in_cache = Model("cache/models--org--m/snapshots/aaa");
  variables_["HF_HUB_CACHE"] = (home_ / "cache").string();
  EXPECT_EQ(Find("org/m"), in_cache);
}

TEST_F(ModelPath, ANameWithoutOrganisationIsSentenceTransformers) {
  const fs::path model =
      Model(".cache/huggingface/hub/models--sentence-transformers--m/snapshots/aaa");
  EXPECT_EQ(Find("m"), model);
}

TEST_F(ModelPath, TheErrorSaysWhatWasTriedAndWhatThereIs) {
  Model(".cache/sprat/models/b");
  Model(".cache/sprat/models/a");
  Model(".cache/huggingface/hub/models--org--c/snapshots/aaa");
  fs::create_directories(home_ / ".cache/sprat/models/m");
  EXPECT_THAT(Find("m"), AllOf(HasSubstr("no model 'm'"), HasSubstr("tried: m does not exist"),
                               HasSubstr("/.cache/sprat/models/m holds no config.json"),
                               HasSubstr("models--m holds no snapshot"),
                               HasSubstr("/.cache/sprat/models: a, b"),
                               HasSubstr("/.cache/huggingface/hub: org/c")));
  std::ofstream(home_ / "model.safetensors") << "x";
  EXPECT_THAT(Find((home_ / "model.safetensors").string()),
              HasSubstr("model.safetensors is a file, not a directory"));
}

TEST_F(ModelPath, AVariableThatNamesNoDirectoryIsSaid) {
  variables_["SPRAT_MODELS"] = (home_ / "absent").string();
  EXPECT_THAT(Find("m"), HasSubstr("SPRAT_MODELS names " + (home_ / "absent").string() +
                                   ", which is no directory"));
  EXPECT_THAT(Find({}), HasSubstr("which is no directory"));
  fs::create_directory(home_ / "absent");
  EXPECT_THAT(Find({}), HasSubstr("models under " + (home_ / "absent").string() + ": none"));
}

TEST_F(ModelPath, WithoutANameTheVariableThenTheOnlyModel) {
  EXPECT_THAT(Find({}), AllOf(HasSubstr("which model?"), HasSubstr("models: none")));
  const fs::path model = Model(".cache/sprat/models/m");
  EXPECT_EQ(Find({}), model);
  Model(".cache/sprat/models/n");
  EXPECT_THAT(Find({}), AllOf(HasSubstr("which model?"), HasSubstr("models: m, n")));
  variables_["SPRAT_MODEL"] = "m";
  EXPECT_EQ(Find({}), model);
  variables_["SPRAT_MODEL"] = "absent";
  EXPECT_THAT(Find({}), HasSubstr("SPRAT_MODEL: no model 'absent'"));
}

}  // namespace
}  // namespace sprat::cli

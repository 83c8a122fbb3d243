// Which directory `--model NAME` means.
#ifndef SPRAT_CLI_MODEL_PATH_H_
#define SPRAT_CLI_MODEL_PATH_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sprat/result.h"

namespace sprat::cli {

// The value of an environment variable that is set and not empty. An argument, so that tests need
// not change the process's own.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// The directory of the model called `name`. In this order:
//   1. a directory;
//   2. a directory under SPRAT_MODELS (default ~/.cache/sprat/models);
//   3. a name in Hugging Face's cache (HF_HUB_CACHE, else HF_HOME/hub, else
//      ~/.cache/huggingface/hub): models--ORG--NAME/snapshots/R, where R is what refs/main says or
//      else the newest; a name without ORG is also looked for under sentence-transformers.
// A directory counts if it holds config.json or modules.json. Without `name`: the variable
// SPRAT_MODEL, else the only model under SPRAT_MODELS.
// Errors: kNotFound; the message lists what was tried and which models there are.
Result<std::filesystem::path> FindModel(const std::optional<std::string>& name,
                                        const Environment& env);

// The names of the models under SPRAT_MODELS, sorted.
std::vector<std::string> InstalledModels(const Environment& env);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_MODEL_PATH_H_

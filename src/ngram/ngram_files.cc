#include "ngram/ngram_files.h"

#include <optional>
#include <string>
#include <utility>

namespace sprat {
namespace {

Result<NgramConfig> ReadConfig(const std::filesystem::path& directory,
                               const NgramOptions& options) {
  const std::filesystem::path path = directory / "config.json";
  Result<std::optional<NgramConfig>> config =
      ReadNgramConfig(path, {.scale = options.scale, .ignored_tokens = options.ignored_tokens});
  if (!config.ok()) return std::move(config.error());
  if (config.value()) return *std::move(config.value());
  return Error(ErrorCode::kUnsupported,
               path.string() +
                   ": no n-gram embedding: expected ngram_vocab_size_ratio, emb_neighbor_num and "
                   "emb_split_num, or oe_vocab_size_ratio, oe_neighbor_num and oe_split_num");
}

}  // namespace

Result<NgramFiles> OpenNgramFiles(const std::filesystem::path& directory,
                                  const NgramOptions& options) {
  Result<NgramConfig> config = ReadConfig(directory, options);
  if (!config.ok()) return std::move(config.error());
  Result<TensorFile> file = TensorFile::OpenDirectory(directory);
  if (!file.ok()) return std::move(file.error());
  NgramFiles files;
  files.config = std::move(config).value();
  files.file = std::make_unique<TensorFile>(std::move(file).value());
  Result<NgramTensors> tensors = FindNgramTensors(*files.file, files.config, options.word_table);
  if (!tensors.ok()) return std::move(tensors.error());
  files.tensors = std::move(tensors).value();
  return files;
}

NgramInfo DescribeNgram(const std::filesystem::path& directory, const NgramFiles& files,
                        const RowLayout& layout) {
  const NgramConfig& config = files.config;
  NgramInfo info;
  info.directory = directory;
  info.vocabulary = config.vocabulary;
  info.hidden = config.hidden;
  info.max_order = config.max_order;
  info.splits = config.splits;
  info.tables = config.tables();
  info.width = config.width();
  uint64_t stored_rows = 0;
  for (uint32_t i = 0; i < config.tables(); ++i) {
    info.rows += config.rows(i);
    stored_rows += config.stored_rows(i);
  }
  info.eos = config.eos;
  info.scale = config.scale;
  info.form = layout.form;
  info.word_table = HasWordTable(*files.file);
  info.table_dtype = Name(files.tensors.tables[0]->dtype);
  info.row_bytes = layout.row_bytes_with_scale();
  info.table_bytes = stored_rows * info.row_bytes;
  info.token_bytes = config.tables() * info.row_bytes;
  info.cache_slots = layout.cache_slots;
  return info;
}

NgramInfo DescribeNgram(const std::filesystem::path& directory, const NgramFiles& files,
                        const RowTables& tables) {
  NgramInfo info = DescribeNgram(directory, files, tables.layout());
  if (tables.cache() != nullptr) info.reader = tables.cache()->reader().name();
  return info;
}

}  // namespace sprat

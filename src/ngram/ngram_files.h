// What opening an n-gram embedding begins with, on whatever device.
#ifndef SPRAT_NGRAM_NGRAM_FILES_H_
#define SPRAT_NGRAM_NGRAM_FILES_H_

#include <filesystem>
#include <memory>

#include "model/safetensors.h"
#include "ngram/ngram_config.h"
#include "ngram/ngram_tensors.h"
#include "ngram/row_tables.h"
#include "sprat/ngram.h"
#include "sprat/result.h"

namespace sprat {

struct NgramFiles {
  NgramConfig config;
  std::unique_ptr<TensorFile> file;
  NgramTensors tensors;  // views into `file`
};

// Reads config.json and finds the tensors. Errors: as NgramEmbedding::Open has them for files.
Result<NgramFiles> OpenNgramFiles(const std::filesystem::path& directory,
                                  const NgramOptions& options);

// All of NgramInfo but `reader` and what depends on the device: resident_bytes, kernels and
// threads.
NgramInfo DescribeNgram(const std::filesystem::path& directory, const NgramFiles& files,
                        const RowLayout& layout);

// The same with `reader`.
NgramInfo DescribeNgram(const std::filesystem::path& directory, const NgramFiles& files,
                        const RowTables& tables);

}  // namespace sprat

#endif  // SPRAT_NGRAM_NGRAM_FILES_H_

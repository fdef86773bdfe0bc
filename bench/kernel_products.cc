// SPDX-License-Identifier: Apache-2.0
// The gate (K 1024, one leaf), the down projection (K 3072, a leaf for each of 16 runs) and that of
// what is attended to (`o`: K 2048, a leaf for each KV head). Leaves lie in each other as in an
// arena. Weights are as many different matrices as a step would read from memory.
#include "kernel_products.h"

#include <memory>
#include <string>
#include <utility>

#include "phalanx/base/check.h"
#include "phalanx/checkpoint/config.h"

namespace phalanx::bench {
namespace {

struct ProductShape {
  kernels::WeightFormat format = kernels::WeightFormat::kBf16;
  std::uint32_t rows = 0;
  std::uint32_t k = 0;
  std::uint32_t columns = 0;
  std::uint32_t leaves = 1;  // of k / leaves each: 64 columns of all of them, then the next 64

  [[nodiscard]] std::size_t leaf_bytes() const {
    return kernels::weight_bytes(format, k / leaves, kernels::kGroupColumns);
  }
  [[nodiscard]] std::size_t group_stride() const { return leaf_bytes() * leaves; }
  [[nodiscard]] std::size_t bytes() const {
    return group_stride() * (columns / kernels::kGroupColumns);
  }
};

class Products {
 public:
  Products(const kernels::KernelTable& table, Scratch& scratch)
      : table_(table), scratch_(scratch), sums_(kMaxRows * kIntermediate / 32) {}

  void run(const ProductShape& shape, std::size_t turn) {
    const std::byte* weights =
        scratch_.weights.data() + turn % (kWeightBytes / shape.bytes()) * shape.bytes();
    const std::uint32_t leaf_k = shape.k / shape.leaves;
    std::vector<kernels::MatmulLeaf> parts(shape.leaves);
    for (std::uint32_t i = 0; i < shape.leaves; ++i) {
      parts[i].weight = {shape.format,
                         leaf_k,
                         shape.columns,
                         weights + i * shape.leaf_bytes(),
                         shape.leaves > 1 ? shape.group_stride() : 0};
      parts[i].first_k = i * leaf_k;
    }
    PHALANX_CHECK(kernels::plan_leaves(shape.leaves, 0, parts) == 1, "all leaves make one node");
    kernels::MatmulArgs args;
    args.rows = shape.rows;
    args.leaves = parts.data();
    args.leaf_count = shape.leaves;
    args.columns = shape.columns;
    args.out = reinterpret_cast<float*>(scratch_.out.data());
    args.out_stride = shape.columns;
    if (shape.format == kernels::WeightFormat::kBf16) {
      args.activations = reinterpret_cast<const tensor::Bf16*>(scratch_.in.data());
      args.activation_stride = shape.k;
    } else {
      args.quantized.codes = reinterpret_cast<std::int8_t*>(scratch_.in.data());
      args.quantized.code_stride = shape.k;
      args.quantized.sums = sums_.data();
      args.quantized.scales = reinterpret_cast<float*>(scratch_.in.data());
      args.quantized.span = shape.format == kernels::WeightFormat::kInt8
                                ? kernels::ScaleSpan::kLeaf
                                : kernels::ScaleSpan::kBlock;
    }
    for (std::uint32_t tile = 0; tile < kernels::matmul_tiles(args); ++tile) {
      table_.matmul(args, tile);
    }
  }

 private:
  const kernels::KernelTable& table_;
  Scratch& scratch_;
  std::vector<std::int32_t> sums_;
};

Case case_of(const std::shared_ptr<Products>& products, const ProductShape& shape) {
  const std::string format(kernels::weight_format_name(shape.format));
  const std::string rows = std::to_string(shape.rows);
  const std::string k = std::to_string(shape.k);
  const std::string columns = std::to_string(shape.columns);
  Case product;
  product.name = "\"kernel\":\"matmul\",\"format\":\"" + format + "\",\"rows\":" + rows +
                 ",\"k\":" + k + ",\"columns\":" + columns +
                 ",\"leaves\":" + std::to_string(shape.leaves);
  product.row = "matmul " + format + " " + rows + " x " + k + " x " + columns;
  product.operations = 2.0 * shape.rows * shape.k * shape.columns;
  product.bytes = static_cast<double>(shape.bytes());
  product.run = [products, shape](std::size_t turn) { products->run(shape, turn); };
  return product;
}

}  // namespace

void add_products(std::vector<Case>& cases,
                  const kernels::KernelTable& table,
                  Scratch& scratch,
                  std::span<const kernels::WeightFormat> formats,
                  std::span<const std::uint32_t> row_counts) {
  const auto products = std::make_shared<Products>(table, scratch);
  for (const kernels::WeightFormat format : formats) {
    for (const std::uint32_t rows : row_counts) {
      cases.push_back(case_of(products, {format, rows, kHidden, kIntermediate, 1}));
      cases.push_back(
          case_of(products, {format, rows, kIntermediate, kHidden, checkpoint::kMlpRuns}));
      cases.push_back(case_of(products, {format, rows, kHeads * kHeadDim, kHidden, kKvHeads}));
    }
  }
}

}  // namespace phalanx::bench

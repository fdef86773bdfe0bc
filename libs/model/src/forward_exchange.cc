// SPDX-License-Identifier: Apache-2.0
// Norms whose rows the ranks of a group share out.
#include <algorithm>

#include "forward_recorder.h"
#include "fused_tasks.h"

namespace phalanx::model {

RmsNormTask ForwardRecorder::norm_args() const {
  RmsNormTask args;
  args.kernel.x_stride = hidden_;
  args.kernel.delta_stride = hidden_;
  args.kernel.epsilon = config_.rms_norm_eps;
  args.kernel.out_stride = hidden_;
  args.kernel.hidden = config_.hidden;
  return args;
}

void ForwardRecorder::meet(const std::string& name) {
  MeetTask args;
  args.range = exchanged_;
  recorder_.task(Callable::kMeet, prefix_ + name, args);
  recorder_.uses(*resident_.exchange, Access::kInOut);
}

// A rank writes its part of the input between two meetings: after the first all nodes are there,
// after the second all rows of the input. Nobody reads the input any more when the first is over,
// and nobody writes nodes before the second is.
void ForwardRecorder::exchange_norm(const std::string& name,
                                    const ProductInput& input,
                                    std::size_t gain,
                                    const std::optional<Delta>& delta,
                                    const std::uint32_t* source_rows) {
  SumNormTask args;
  args.norm = norm_args();
  args.norm.rows = source_rows == nullptr ? RowsOf::kAll : RowsOf::kSampled;
  args.norm.codes = code_args(input);
  args.node_stride = rows_ * hidden_;
  args.source_rows = source_rows;
  args.rank = shard_.rank;
  args.ranks = shard_.ranks;
  args.range = exchanged_;
  if (delta) {
    meet(name + ": nodes");
    args.plan = delta->tree;
    thread_floats_ = std::max(thread_floats_, sum_norm_floats(*delta->tree, config_.hidden));
  }
  thread_floats_ = std::max(thread_floats_, norm_floats(config_.hidden));
  auto* task = recorder_.task(Callable::kSumNorm, prefix_ + name, args);
  kernels::RmsNormArgs& kernel = task->norm.kernel;
  recorder_.link(x_, Access::kInOut, &kernel.x);
  recorder_.link(resident_.weights, Access::kIn, &kernel.gain, gain);
  if (delta) {
    recorder_.link(*resident_.exchange, Access::kIn, &task->nodes, exchange_.nodes);
    link_vector(delta->bias, &kernel.delta_bias);
  }
  const auto link = [&](std::size_t offset, auto** field) {
    recorder_.link(*resident_.exchange, Access::kOutExisting, field, offset);
  };
  if (input.is_quantized()) {
    link(input.shared->codes, &task->norm.codes.out.codes);
    link(input.shared->sums, &task->norm.codes.out.sums);
    link(input.shared->scales, &task->norm.codes.out.scales);
  } else {
    link(input.shared->rows, &kernel.out);
  }
  meet(name + ": rows");
}

}  // namespace phalanx::model

// SPDX-License-Identifier: Apache-2.0
// Rows that the ranks of a group share out, and rows that leave.
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
  args.rows = followed_;
  return args;
}

void ForwardRecorder::meet(const std::string& name) {
  MeetTask args;
  args.range = exchanged_;
  args.rows = followed_;
  recorder_.task(Callable::kMeet, prefix_ + name, args);
  recorder_.uses(*resident_.exchange, Access::kInOut);
}

// A rank writes its part of the input between two meetings: after the first all nodes are there,
// after the second all rows of the input. Nobody reads the input any more when the first is over,
// and nobody writes nodes before the second is.
void ForwardRecorder::exchange_norm(const std::string& name,
                                    const ProductInput& input,
                                    std::size_t gain,
                                    const std::optional<Delta>& delta) {
  SumNormTask args;
  args.norm = norm_args();
  args.norm.codes = code_args(input);
  args.node_stride = rows_ * hidden_;
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

// The residual stream, what follows from positions and the input of products, from their rows in
// the step to the first ones. Where ranks exchange rows each has some of the residual stream only;
// the meeting is for all of them to be done with keys and values, too, whose input is written over.
void ForwardRecorder::narrow(std::size_t gain) {
  GatherRowsTask in_place;
  in_place.source_rows = inputs_.sample_rows;
  in_place.row_floats = hidden_;
  in_place.range = alone_;
  auto* gather = recorder_.task(Callable::kGatherRows, prefix_ + "gather rows", in_place);
  recorder_.link(x_, Access::kInOut, &gather->to);
  if (exchanges()) {
    exchange_sampled();
  }
  followed_ = RowsOf::kNarrowed;
  rope("rope of rows that sample", inputs_.sample_positions, Access::kInOut);
  norm("norm of rows that sample", normed_, gain, std::nullopt, Access::kInOut);
  followed_ = RowsOf::kSampled;
}

void ForwardRecorder::exchange_sampled() {
  GatherRowsTask own;
  own.source_rows = inputs_.sample_rows;
  own.row_floats = hidden_;
  own.rank = shard_.rank;
  own.ranks = shard_.ranks;
  own.range = exchanged_;
  auto* leave = recorder_.task(Callable::kGatherRows, prefix_ + "leave own rows", own);
  recorder_.link(x_, Access::kIn, &leave->from);
  recorder_.link(*resident_.exchange, Access::kOutExisting, &leave->to, exchange_.x);
  meet("rows that sample");
  GatherRowsTask all;
  all.row_floats = hidden_;
  all.range = exchanged_;
  auto* take = recorder_.task(Callable::kGatherRows, prefix_ + "take rows", all);
  recorder_.link(*resident_.exchange, Access::kIn, &take->from, exchange_.x);
  recorder_.link(x_, Access::kInOut, &take->to);
}

}  // namespace phalanx::model

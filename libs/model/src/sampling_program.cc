// SPDX-License-Identifier: Apache-2.0
#include "sampling_program.h"

#include <string>

#include "task_args.h"

namespace phalanx::model {
namespace {

// What a phase leaves for each row: on this rank, and gathered from all.
struct RowRecords {
  BufferId own;
  BufferId all;
  std::size_t row_bytes = 0;
};

class SamplingRecorder {
 public:
  SamplingRecorder(const SamplingShape& shape,
                   const ForwardBuffers& resident,
                   BufferId logits,
                   Sampler* sampler,
                   ProgramRecorder& recorder)
      : shape_(shape),
        resident_(resident),
        logits_(logits),
        sampler_(sampler),
        recorder_(recorder),
        shaped_(recorder.scratch("shaped logits",
                                 shape.rows_max * shape.logits_stride * sizeof(float))),
        peaks_(records("peaks", sizeof(PeakRecord))),
        histograms_(records("histograms", sizeof(kernels::VocabHistogram))),
        draws_(records("draws", sizeof(DrawRecord))) {}

  void record() {
    shape_rows();
    gather("gather peaks", peaks_, RowsOf::kSampled);
    SampleTask* peak = task(Callable::kSamplePeak, "peak", {});
    recorder_.link(peaks_.all, Access::kIn, &peak->all);
    for (const Selection selection : {Selection::kTopK, Selection::kTopP}) {
      for (std::uint32_t pass = 0; pass < kSelectionPasses; ++pass) {
        select(selection, pass);
      }
    }
    draw_and_finish();
  }

 private:
  RowRecords records(const std::string& name, std::size_t row_bytes) {
    return {recorder_.scratch(name, shape_.rows_max * row_bytes),
            recorder_.scratch("all " + name, shape_.ranks * shape_.rows_max * row_bytes),
            row_bytes};
  }

  // A task of the sampler. All change the state that the sampler keeps for each row, so they never
  // share a stage: the table stands for that state as well.
  SampleTask* task(Callable callable, const std::string& name, SampleTask args) {
    args.sampler = sampler_;
    SampleTask* task = recorder_.task(callable, name, args);
    recorder_.uses(resident_.sequence_table, Access::kInOut);
    return task;
  }

  void gather(const std::string& name, const RowRecords& records, RowsOf rows) {
    AllGatherTask args;
    args.row_bytes = records.row_bytes;
    args.rows = rows;
    auto* task = recorder_.task(Callable::kAllGather, name, args);
    recorder_.link(records.own, Access::kIn, &task->own);
    recorder_.link(records.all, Access::kOut, &task->all);
  }

  void read_logits(SampleTask* task) {
    recorder_.link(logits_, Access::kIn, &task->logits);
    recorder_.link(shaped_, Access::kIn, &task->shaped);
  }

  void shape_rows() {
    SampleTask* shape = task(Callable::kSampleShape, "shape logits", {});
    recorder_.link(logits_, Access::kIn, &shape->logits);
    recorder_.link(shaped_, Access::kOut, &shape->shaped);
    recorder_.link(peaks_.own, Access::kOut, &shape->own);
  }

  void select(Selection selection, std::uint32_t pass) {
    const bool top_k = selection == Selection::kTopK;
    SampleTask args;
    args.selection = selection;
    args.pass = pass;
    args.rows = top_k ? RowsOf::kTopK : RowsOf::kTopP;
    const std::string name = (top_k ? "top_k " : "top_p ") + std::to_string(pass);
    SampleTask* count = task(Callable::kSampleCount, name + " count", args);
    read_logits(count);
    recorder_.link(histograms_.own, Access::kOut, &count->own);
    gather(name + " gather", histograms_, args.rows);
    SampleTask* choose = task(Callable::kSampleSelect, name + " select", args);
    read_logits(choose);
    recorder_.link(histograms_.all, Access::kIn, &choose->all);
  }

  void draw_and_finish() {
    SampleTask args;
    args.rows = RowsOf::kDrawn;
    SampleTask* draw = task(Callable::kSampleDraw, "draw", args);
    read_logits(draw);
    recorder_.link(draws_.own, Access::kOut, &draw->own);
    gather("gather draws", draws_, RowsOf::kDrawn);
    args.rows = RowsOf::kSampled;
    SampleTask* finish = task(Callable::kSampleFinish, "finish", args);
    recorder_.link(draws_.all, Access::kIn, &finish->all);
    recorder_.link(resident_.results, Access::kOutExisting, &finish->results);
  }

  SamplingShape shape_;
  const ForwardBuffers& resident_;
  BufferId logits_;
  Sampler* sampler_;
  ProgramRecorder& recorder_;
  BufferId shaped_;
  RowRecords peaks_;
  RowRecords histograms_;
  RowRecords draws_;
};

}  // namespace

void record_sampling(const SamplingShape& shape,
                     const ForwardBuffers& resident,
                     BufferId logits,
                     Sampler* sampler,
                     ProgramRecorder& recorder) {
  SamplingRecorder(shape, resident, logits, sampler, recorder).record();
}

}  // namespace phalanx::model

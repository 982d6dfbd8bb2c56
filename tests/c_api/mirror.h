// SPDX-License-Identifier: MIT
// The C structs of C++ ones, with the same tensors: a call in C that has the arguments of one in C++.
#pragma once
#include <attune/attune.h>
#include <attune/attune_c.h>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace attune_test {

// Makes C structs, and keeps them as long as it lives.
class Mirror {
public:
    template<typename Data> attune_tensor *of(const attune::BasicView<Data> &view) {
        attune_tensor &to = keep<attune_tensor>({});
        to.data = const_cast<void *>(static_cast<const void *>(view.data));
        to.dtype = static_cast<attune_dtype>(view.dtype), to.place = static_cast<attune_place>(view.place);
        to.rank = view.rank;
        to.capacity = view.capacity < 0 ? 0 : view.capacity;
        for (int n = 0; n < view.rank && n < attune::max_rank; n++)
            to.extents[n] = view.extent[n], to.strides[n] = view.stride[n];
        return &to;
    }
    attune_pages *of(const attune::ConstPages &pages) {
        return &keep<attune_pages>({sizeof(attune_pages), of(pages.rows), of(pages.scale), of(pages.minimum)});
    }
    attune_dropout *of(const attune::Dropout &);
    attune_sdpa_options *of(const attune::SdpaOptions &);
    attune_sdpa_forward *of(const attune::SdpaForward &);
    attune_sdpa_gradients *of(const attune::SdpaGradients &);
    attune_additive_options *of(const attune::AdditiveOptions &);
    attune_additive_gradients *of(const attune::AdditiveGradients &);
    attune_linear_options *of(const attune::LinearOptions &);
    attune_linear_gradients *of(const attune::LinearGradients &);
    attune_masked_softmax_options *of(const attune::MaskedSoftmaxOptions &);
    attune_multi_head_weights *of(const attune::MultiHeadWeights &);
    attune_multi_head_options *of(const attune::MultiHeadOptions &);
    attune_multi_head_weight_gradients *of(const attune::MultiHeadWeightGradients &);
    attune_multi_head_gradients *of(const attune::MultiHeadGradients &);
    attune_rope *of(const attune::Rope &);
    attune_row_steps *of(const attune::RowSteps &);
    attune_kv_append_options *of(const attune::KvAppendOptions &);
    attune_append_options *of(const attune::AppendOptions &);
    attune_pages *of(const attune::Pages &);
    attune_shared_prefix *of(const attune::SharedPrefix &);
    attune_paged_options *of(const attune::PagedOptions &);
    attune_sdpa_problem *of(const attune::SdpaProblem &);
    attune_product_problem *of(const attune::ProductProblem &);
    attune_parallel_band *of(const attune::ParallelBand &);
    attune_parallel_problem *of(const attune::ParallelProblem &);
    attune_parallel_machine *of(const attune::ParallelMachine &);
    attune_parallel_options *of(const attune::ParallelOptions &);
    attune_communicator *of(const attune::Communicator &from) {
        return &keep<attune_communicator>({sizeof(attune_communicator), from.rank, from.size, from.time_limit, from.any_thread,
                                           0, from.user, from.start_send_receive, from.wait, from.abandon,
                                           from.start_all_gather, from.start_all_to_all});
    }

private:
    template<typename T> T &keep(const T &value) {
        auto kept = std::make_shared<T>(value);
        kept_.push_back(kept);
        return *kept;
    }
    std::vector<std::shared_ptr<void>> kept_;
};

// A context of C with its end.
struct CContext {
    explicit CContext(int threads = 0) {
        attune_context_options options = ATTUNE_CONTEXT_OPTIONS_INIT;
        options.threads = threads;
        attune_context_create(&options, &context);
    }
    CContext(const CContext &) = delete;
    ~CContext() { attune_context_destroy(context); }
    operator attune_context *() const { return context; }
    std::string message() const { return attune_last_message(context); }
    attune_context *context = nullptr;
};

}  // namespace attune_test

// SPDX-License-Identifier: MIT
// A packed batch whose keys are packed too: checks and steps that its attention and its gradients share.
#pragma once
#include "serving/packed_call.h"
#include <array>

namespace attune {

struct VarlenCall : PackedCall {
    ConstView query_ends, key_ends, offsets;
    std::int64_t batch() const { return query_ends.extent[0] - 1; }
};

// Checks the lists of ends against arrays of these numbers of rows.
Status check_sequences(const VarlenCall &, const ConstView &query, const ConstView &key);
// Refuses options that packed batches do not take, checks those with an entry per sequence, and gives other checks the options
// of one batch entry: but for lse.
Status check_sequence_options(const SdpaOptions &, const VarlenCall &, SdpaOptions &of_entry);
// Names of the lists of a call, for the check of overlaps.
std::array<NamedView, 4> named_lists(const VarlenCall &, const SdpaOptions &);

// Refuses lists of ends, and offsets, of a call on a device that are there: the host reads them to queue a kernel a sequence.
Status check_lists_on_host(const VarlenCall &, const SdpaOptions &);

// Keeps what select_sequence() needs of the options; p.rows is a checked call of all rows.
void keep_options(const SdpaOptions &, VarlenCall &);
// Sequence n of the batch.
Sequence sequence_of(const VarlenCall &, std::int64_t n);
// Turns `call`, a copy of p.rows that may have served other sequences, into the call of one sequence.
void select_sequence(const VarlenCall &, const SdpaOptions &, const Sequence &, SdpaCall &call);

}  // namespace attune

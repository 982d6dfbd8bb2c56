// SPDX-License-Identifier: MIT
#include "tools/calls/gradient.h"
#include "tools/error.h"

namespace attune::program {

View Gradient::make(const char *of, bool there, ElementType type, const Shape &shape, int kept) {
    if (!file) return {};
    if (!there) throw InputError(argument, std::string("is only for ") + of);
    array = output_array(argument, type, shape);
    return output_view(array, kept);
}

void name_outputs(CommandFiles &files, std::initializer_list<Gradient *> gradients) {
    bool any = false;
    for (const Gradient *g : gradients) any = any || g->file;
    if (!any) throw InputError((*gradients.begin())->argument, "or another gradient must be asked for");
    for (const Gradient *g : gradients) files.output(g->argument, g->file);
}

void write_all(CommandFiles &files, std::initializer_list<Gradient *> gradients) {
    for (const Gradient *g : gradients)
        if (g->file) files.write(g->argument, g->array);
    files.commit();
}

void make_option_gradients(const Attention &attention, std::int64_t heads, ElementType type, Gradient &bias, Gradient &slopes,
                           Gradient &sinks, SdpaGradients &wanted) {
    const Array &given = attention.bias, &alibi = attention.alibi;
    if (bias.file && given.elements() != *elements_of(attention.bias_shape))
        throw InputError("--grad-bias", "is not for a --bias that is repeated over leading extents");
    constexpr int kept = 3;  // extents that are not the batch
    wanted.bias = bias.make("--bias", given.rank() > 0, type, given.shape, attention.folded() ? kept : any_rank);
    bias.array.shape = attention.bias_shape;  // the shape in its file
    const bool standard = attention.options.alibi;
    wanted.alibi_slopes =
        slopes.make("--alibi", standard || alibi.rank() > 0, ElementType::f32, standard ? Shape{heads} : alibi.shape, 1);
    wanted.sinks = sinks.make("--sinks", attention.sinks.rank() > 0, ElementType::f32, attention.sinks.shape, 1);
}

}  // namespace attune::program

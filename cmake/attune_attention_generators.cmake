# The objects of programs that make kernels of attention: the library's own, and those of users (attune_add_attention.cmake).
# attune_<program>_objects: all that a program is linked of.
attune_add_generator_objects(attune_generator_math generators/math/exp2.cpp generators/math/philox.cpp generators/math/precise.cpp
  generators/math/tanh.cpp generators/math/transpose.cpp schedules/transpose.cpp schedules/matrix_tiles.cpp)
attune_add_generator_objects(attune_attention_generator generators/sdpa/builder.cpp generators/sdpa/scores.cpp
  generators/sdpa/score_derivative.cpp generators/sdpa/user_attention.cpp)
attune_add_generator_objects(attune_sdpa_generator
  generators/sdpa/sdpa_stages.cpp
  generators/sdpa/pair_stages.cpp
  generators/sdpa/weights_stages.cpp
  generators/sdpa/sdpa_generator.cpp
  schedules/sdpa/root.cpp
  schedules/sdpa/scores.cpp
  schedules/sdpa/tiles.cpp
  schedules/sdpa/prefill.cpp
  schedules/sdpa/pairs.cpp
  schedules/sdpa/decode.cpp
  schedules/sdpa/split.cpp
  schedules/sdpa/weights.cpp
  schedules/sdpa/autoscheduled.cpp)
attune_add_generator_objects(attune_sdpa_backward_generator generators/sdpa/backward_generator.cpp
  generators/sdpa/backward_stages.cpp generators/sdpa/backward_scores.cpp generators/sdpa/backward_pairs.cpp generators/sdpa/backward_terms.cpp
  generators/sdpa/backward_captures.cpp generators/sdpa/backward_captured.cpp schedules/sdpa/backward.cpp
  schedules/sdpa/backward_terms.cpp)

set(attune_attention_objects $<TARGET_OBJECTS:attune_attention_generator> $<TARGET_OBJECTS:attune_generator_math>)
set(attune_sdpa_objects $<TARGET_OBJECTS:attune_sdpa_generator> ${attune_attention_objects})
set(attune_sdpa_backward_objects $<TARGET_OBJECTS:attune_sdpa_backward_generator> ${attune_attention_objects})

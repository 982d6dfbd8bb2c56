# The objects that programs of users' attention share, compiled once for a project.
if(NOT TARGET attune_attention_generator)
  include(${ATTUNE_SOURCE_DIR}/cmake/attune_attention_generators.cmake)
endif()
if(NOT TARGET attune_mask_blocks_generator)
  attune_add_generator_objects(attune_mask_blocks_generator generators/mask_blocks/mask_blocks_stages.cpp)
  attune_add_generator_objects(attune_mask_blocks_program generators/mask_blocks/mask_blocks_generator.cpp
    schedules/mask_blocks/mask_blocks.cpp)
  attune_add_generator_objects(attune_describe_attention generators/sdpa/describe_attention.cpp)
endif()
set(attune_attention_objects $<TARGET_OBJECTS:attune_attention_generator> $<TARGET_OBJECTS:attune_generator_math>)

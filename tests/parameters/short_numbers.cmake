# SPDX-License-Identifier: MIT
# Numbers of provenance have the digits of the record (attune_short_number), where CMake gives all digits of a double.
# usage: cmake -DATTUNE_CMAKE=<folder> -P short_numbers.cmake
cmake_minimum_required(VERSION 3.25)
include(${ATTUNE_CMAKE}/attune_parameters.cmake)

set(json [[{"provenance": {"measured": false, "us": 4.308, "percent_of_peak": 69.4, "large": 7006.0, "whole": 12, "small": 0.05,
  "up": 9.9996, "tiny": 1.5e-10, "text": "1.250"}}]])
attune_json_pairs("${json}" provenance ": " pairs)
set(expected "large: 7006" "measured: false" "percent_of_peak: 69.4" "small: 0.05" "text: 1.250" "tiny: 1.5e-10" "up: 10"
  "us: 4.308" "whole: 12")
list(SORT pairs)
if(NOT "${pairs}" STREQUAL "${expected}")
  message(SEND_ERROR "${pairs}\nexpected ${expected}")
endif()

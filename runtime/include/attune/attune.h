// Everything.
#pragma once
#include "attune/context.h"
#include "attune/sdpa.h"
#include "attune/status.h"
#include "attune/tensor.h"
#include "attune/variants.h"
